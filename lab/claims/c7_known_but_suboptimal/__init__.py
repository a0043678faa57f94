"""A known period badly used against an unknown one well used (Cost fig. 7)."""
