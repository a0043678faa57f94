"""Who takes part in a cluster: heartbeats, who counts as present, and what all of them can read."""
