"""Forgetting pages: erase them from store, change feed, log, snapshots and backups."""
