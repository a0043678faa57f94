"""What it costs per hour not to know a page's period (Cost fig. 5)."""
