"""Checks that any implementation of a recrawl interface can run."""

from recrawl.testing.ledgers import LEDGER_CHECKS, LedgerCheck, OpenLog

__all__ = ["LEDGER_CHECKS", "LedgerCheck", "OpenLog"]
