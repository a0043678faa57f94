"""How a node survives: its log is opened, snapshots are taken, and state is recovered."""
