"""Policies of the papers that are no part of recrawl itself."""
