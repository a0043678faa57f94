"""Beliefs about a change rate in other forms than a node keeps them."""

from recrawl.papers.belief.grid import GridBelief

__all__ = ["GridBelief"]
