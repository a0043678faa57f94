"""Signals App. G: fetches saved at equal freshness where one page in twenty is well signalled."""
