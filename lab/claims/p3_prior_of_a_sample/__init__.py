"""Rates of a sample, and the prior that is made of them (Prior figs 3, 5, 6)."""
