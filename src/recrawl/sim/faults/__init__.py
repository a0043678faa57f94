"""A shard driven through random faults, with laws that must hold at every step."""
