"""Keep copies of web pages fresh on a fixed budget of fetches."""

from importlib.metadata import version as _version

__all__ = ["__version__"]

__version__ = _version("recrawl")
