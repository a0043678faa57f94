"""The section of the configuration that keeps a share of hosts on the old rule."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from recrawl.errors import ConfigError
from recrawl.node.config.values import Duration, Share, read_fields

__all__ = ["SHARE_MAX", "HoldoutConfig", "keeps_old_rule"]

SHARE_MAX = 0.5
"""Largest share of hosts that can be held out."""
_HASHES = 2**64


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldoutConfig:
    """A share of hosts that keeps the rule you had before, to measure what recrawl changes.

    `recrawl holdout plan` shows how large a difference such an experiment can find.
    """

    share: Share = 0.0
    """Share of hosts whose pages are fetched at a fixed interval instead; at most 0.5.  The hosts
    are chosen by a hash of their name."""
    interval: Duration | None = None
    """Interval between the fetches of each of their pages."""
    name: str = "holdout"
    """Name of the experiment.  Another name chooses other hosts."""

    def __post_init__(self) -> None:
        read_fields(self)
        if self.share > SHARE_MAX:
            raise ConfigError(f"share must be at most {SHARE_MAX}, got {self.share!r}")
        if self.share > 0 and not (self.interval and 0 < self.interval < float("inf")):
            raise ConfigError("interval must be given, and be positive, if share is above 0")

    @property
    def experiment(self) -> str:
        """Text that differs between experiments; empty without one."""
        if self.share <= 0:
            return ""
        # Without the last word it is an experiment whose held-out pages were audited only when
        # they were due: its counts are void, and the limits of its pages have to be set again.
        return f"{self.share!r} {self.interval!r} {self.name!r} schedule"


def keeps_old_rule(hosts: pa.StringArray, config: HoldoutConfig) -> NDArray[np.bool_]:
    """Return which hosts keep the old rule.

    Parameters
    ----------
    hosts
        Names of hosts, or of the groups of a corpus that is grouped otherwise.
    config
        Share and name of the experiment.

    Examples
    --------
    >>> hosts = pa.array([f"site{i}.example" for i in range(1_000)])
    >>> int(keeps_old_rule(hosts, HoldoutConfig(share=0.1, interval=86_400.0)).sum())
    97
    """
    if config.share <= 0 or len(hosts) == 0:
        return np.zeros(len(hosts), np.bool_)
    # Not at the top: a command reads the configuration before it chooses kernels.
    from recrawl.urls import hash_urls  # noqa: PLC0415

    # The name is a prefix, so that experiments of different names are independent.
    named = pa.array([f"{config.name}\t{host}" for host in hosts.to_pylist()], pa.string())
    limit = np.uint64(min(round(config.share * _HASHES), _HASHES - 1))
    return np.asarray(hash_urls(named, key=0) < limit)
