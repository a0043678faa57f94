"""Let a process with many databases have as many open files as they need."""

import logging
import resource
from contextlib import suppress

__all__ = ["FILES_PER_DATABASE", "allow_databases"]

logger = logging.getLogger(__name__)

FILES_PER_DATABASE = 6
"""Files of a database that are always open: two of the folder itself, its lock, manifest,
write-ahead log and messages."""

# Open files to provide for each database, with its sorted files, and for everything else.
_FILES_PER_DATABASE_WANTED = 32
_OTHER_FILES = 256


def allow_databases(n: int) -> int:
    """Raise this process's limit of open files for ``n`` databases, if it is too low for them.

    Many systems allow a process 1,024 files, and more if it asks for them.  Asks for no more than
    is needed, and never lowers the limit; warns if the system does not permit enough.

    Returns
    -------
    int
        The limit, -1 for none.
    """
    limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    if limit == unlimited:
        return -1
    wanted = _FILES_PER_DATABASE_WANTED * n + _OTHER_FILES
    if most != unlimited:
        wanted = min(wanted, most)
    if wanted > limit:
        with suppress(ValueError, OSError):  # some systems do not permit their own limit
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
            limit = wanted
    if limit < FILES_PER_DATABASE * n:
        logger.warning(
            "%d partitions need more than %d open files, and the system permits %d: raise the "
            "limit (ulimit -n), or open fewer partitions in this process",
            n,
            FILES_PER_DATABASE * n,
            limit,
        )
    return limit
