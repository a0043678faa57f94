"""Longevity fig. 10: eight hashes and one profile a page."""
