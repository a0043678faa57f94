"""How often a page is very stale while its period is learned (Cost fig. 8, §5.3)."""
