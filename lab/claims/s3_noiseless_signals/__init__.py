"""S-3: signals that are never false help, even if they miss changes."""
