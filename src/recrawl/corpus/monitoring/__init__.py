"""Figures of a corpus for monitoring."""
