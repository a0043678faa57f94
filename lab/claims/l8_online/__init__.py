"""Longevity figs 8 and 9: the two online policies while they learn, and afterwards."""
