"""Longevity figs 1 to 5: how long content lives, and that change rates do not say it."""
