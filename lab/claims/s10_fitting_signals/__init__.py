"""Signals figs 10 and 11: precision and recall of signals, counted and fitted."""
