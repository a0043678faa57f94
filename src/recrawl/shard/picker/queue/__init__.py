"""Queues of due pages by politeness group."""
