"""Beliefs about a change rate in a form that nodes do not use."""

from recrawl.papers.belief.grid import GridBelief

__all__ = ["GridBelief"]
