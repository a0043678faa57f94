"""Signals figs 7 and 12 to 14: how often pages are fetched, against the optimum without signals."""
