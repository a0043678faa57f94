"""Naive and improved estimates of recorded histories, polled weekly."""
