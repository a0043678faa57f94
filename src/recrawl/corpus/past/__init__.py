"""Answers about a corpus as it was, by replaying its log."""
