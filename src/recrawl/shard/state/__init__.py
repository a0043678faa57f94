"""The state of a shard: its tables, the codes of values in them, and snapshots."""
