"""Samples of the state of a partition: read, logged once a minute, and kept as series."""
