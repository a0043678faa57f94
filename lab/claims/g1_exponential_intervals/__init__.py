"""How long real pages stay the same, beside what a Poisson process would have."""
