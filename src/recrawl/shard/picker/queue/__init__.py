"""Pages that are due, waiting for their turn, and the politeness groups they belong to."""
