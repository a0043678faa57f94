"""Random faults injected into a shard, with invariants checked at every step."""
