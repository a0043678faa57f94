"""Durability of a node: opening its log, taking snapshots, recovering its state."""
