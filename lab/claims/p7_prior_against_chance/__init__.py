"""A prior against a first interval drawn by chance (Prior fig. 7)."""
