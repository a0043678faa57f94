"""Apply events to the state of a shard: one module per kind of event."""
