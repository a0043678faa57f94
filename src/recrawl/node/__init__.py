"""One durable partition of a corpus: a node logs every change, applies it, then stores it."""
