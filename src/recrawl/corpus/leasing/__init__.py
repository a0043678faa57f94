"""Leases of a corpus: the best pages, given URLs, and why there are not more."""
