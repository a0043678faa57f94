"""One budget for all workers: they agree on a price, and on what each partition may spend at it."""
