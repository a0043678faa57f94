"""Learn from the content of fetches how much of a page a change replaces."""
