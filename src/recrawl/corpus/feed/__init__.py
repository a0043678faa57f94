"""The feed of changes, and the places of its consumers."""
