"""S-4: what noisy signals are worth to those who know how noisy they are, and to others."""
