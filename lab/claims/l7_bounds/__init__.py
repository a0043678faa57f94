"""Longevity fig. 7: what observations prove about a divergence curve."""
