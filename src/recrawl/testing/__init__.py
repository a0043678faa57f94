"""Our contracts as functions that anybody's implementation can be run through."""

from recrawl.testing.ledgers import LEDGER_CHECKS, LedgerCheck, OpenLog

__all__ = ["LEDGER_CHECKS", "LedgerCheck", "OpenLog"]
