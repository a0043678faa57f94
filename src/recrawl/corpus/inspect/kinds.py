"""The names of the kinds of pages."""

from recrawl.node.node import Node
from recrawl.store import Names

__all__ = ["kind_names"]


def kind_names(node: Node) -> dict[int, str]:
    """Return the names of a partition's kinds by their numbers; kind 0 has none."""
    numbers = range(1, node.store.n_names(Names.KIND) + 1)
    names = node.store.names_of(Names.KIND, numbers)
    return {number: name or "" for number, name in zip(numbers, names, strict=True)}
