"""One durable partition of a corpus: what happens is logged, then applied, then stored."""
