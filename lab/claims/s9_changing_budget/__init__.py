"""Signals fig. 9: the budget changes, and the accuracy follows."""
