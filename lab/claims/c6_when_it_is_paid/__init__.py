"""When the cost of not knowing is paid (Cost fig. 6)."""
