"""A worker refuses a configuration that workers cannot share."""

from typing import Any

import pytest

from recrawl.cluster.running import check_worker_config
from recrawl.corpus import CorpusConfig
from recrawl.errors import ConfigError


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"budget": {"rate": "500/run"}}, r"no budget per run .* Give a rate, such as"),
        (
            {"holdout": {"share": 0.2, "interval": "1d"}},
            r"holds no hosts out, got holdout\.share = 0\.2: .* Delete the section \[holdout\]",
        ),
        ({"ledger": {"kind": "kafka", "bootstrap": "k:9092", "topic": "t"}}, r"snapshots\.shared"),
    ],
)
def test_settings_that_workers_cannot_share_are_refused(
    sections: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        check_worker_config(CorpusConfig.from_dict(sections))


def test_a_share_of_0_holds_no_hosts_out() -> None:
    check_worker_config(CorpusConfig.from_dict({"holdout": {"share": 0, "interval": "1d"}}))
