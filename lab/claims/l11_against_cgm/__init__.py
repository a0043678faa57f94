"""Longevity figs 11 and 12: against the optimum for pages that are fresh or stale."""
