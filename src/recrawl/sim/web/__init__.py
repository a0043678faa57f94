"""Simulated webs: how pages change, what they contain, which signals they send."""
