"""Signals fig. 8: signals that come late, and whether to discard them."""
