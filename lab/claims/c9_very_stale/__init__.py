"""Fewer very stale pages than Cost's loop at no higher cost: recrawl's own goal."""
