"""Leases of a corpus and their reports: the best pages, given URLs, why there are not more."""
