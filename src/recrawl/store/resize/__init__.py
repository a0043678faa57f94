"""Divide what stores keep anew, when the number of partitions changes."""
