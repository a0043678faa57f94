"""The bare estimate's first epochs are edge cases (Prior fig. 2)."""
