"""There is a best first interval for a population (Prior fig. 4)."""
