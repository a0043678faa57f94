"""Whether the workers of a cluster accept the requests of one of them.

A worker signs what it forwards with a key that all share.  One that was given another file of keys
would own partitions that nobody else reaches, and reach none of theirs.  So it must own none.
"""

from collections.abc import Collection

from recrawl.cluster.members.heartbeats import Heartbeat

__all__ = ["has_other_keys"]


def has_other_keys(
    key_ids: Collection[str], others: Collection[Heartbeat], *, owns_any: bool
) -> bool:
    """Return whether most of the other workers have none of the keys of this one.

    While keys are changed, two workers have at least one in common.  Of two workers without a
    common key, the one that owns partitions goes on.

    Parameters
    ----------
    key_ids
        Names of the cluster keys of this worker.
    others
        Heartbeats of the others; those of older versions do not say which keys they have.
    owns_any
        Whether this worker owns partitions.
    """
    saying = [one for one in others if one.key_ids]
    differing = [one for one in saying if not {*one.key_ids} & {*key_ids}]
    n_agreeing = 1 + len(saying) - len(differing)
    has_less = not owns_any and any(one.owned for one in differing)
    return len(differing) > n_agreeing or (len(differing) == n_agreeing and has_less)
