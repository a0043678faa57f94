"""How events change the state of a shard: one module per kind of event."""
