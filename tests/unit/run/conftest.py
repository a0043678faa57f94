"""Fixtures of tests that crawl."""

from tests.corpus_fixtures import clock, no_history_kept, open_corpus, small_table_without_jit

__all__ = ["clock", "no_history_kept", "open_corpus", "small_table_without_jit"]
