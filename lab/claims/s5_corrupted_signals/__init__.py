"""Signals fig. 5: policies told wrong numbers about signals."""
