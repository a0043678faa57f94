"""Measurements of recrawl, each beside a plain way of doing the same in the same run."""
