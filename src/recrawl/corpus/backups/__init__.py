"""Backups of a corpus: independent, verified copies of its files in another folder."""
