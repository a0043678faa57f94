"""The state of a shard: its tables, how values are coded in them, and snapshots."""
