"""Crawl a corpus that a service shares: any number of workers, on any number of machines.

`WorkerSession` is what ``recrawl run -C https://…`` makes.
"""

from recrawl.run.shared.corpus import SharedCorpus
from recrawl.run.shared.gate import SharedGate
from recrawl.run.shared.session import WorkerSession, lock_worker_folder

__all__ = ["SharedCorpus", "SharedGate", "WorkerSession", "lock_worker_folder"]
