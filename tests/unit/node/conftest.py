"""Fixtures of tests that open a corpus."""

from tests.corpus_fixtures import clock, open_corpus, reading_clock, small_table_without_jit

__all__ = ["clock", "open_corpus", "reading_clock", "small_table_without_jit"]
