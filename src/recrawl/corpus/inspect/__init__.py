"""Answers about a corpus as it is now: explanations, tables, statistics, the change feed."""
