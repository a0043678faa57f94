"""Fixtures of tests of forgetting."""

from tests.corpus_fixtures import clock, open_corpus, small_table_without_jit

__all__ = ["clock", "open_corpus", "small_table_without_jit"]
