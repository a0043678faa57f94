"""Kinds of sinks, one module each."""
