"""Signals fig. 6: the value of a fetch by the number of terms that are kept of its sum."""
