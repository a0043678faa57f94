"""Fixtures of tests that open a corpus."""

from tests.corpus_fixtures import (
    clock,
    no_history_kept,
    open_corpus,
    reading_clock,
    small_table_without_jit,
)

__all__ = ["clock", "no_history_kept", "open_corpus", "reading_clock", "small_table_without_jit"]
