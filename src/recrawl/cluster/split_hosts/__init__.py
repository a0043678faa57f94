"""Very large hosts whose parts are on several workers: messages about their turns."""
