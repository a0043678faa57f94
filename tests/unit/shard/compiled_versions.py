"""Drives shards through what can happen to them, and prints how often each kernel was compiled.

Run as a program, so that no other test has called the kernels: see `test_compiled_versions`.
"""

import itertools
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import numpy as np

from recrawl.shard import events as ev
from recrawl.shard.settings import ShardSettings
from recrawl.shard.shard import Shard
from recrawl.sim.faults.run import record_log
from tests.reference.shards import DAY, HOUR, Story, write_snapshot

SETTINGS = ShardSettings(
    group_delay=2.0,
    lease_seconds=60.0,
    disallowed_seconds=60.0,
    gone_polls_max=3,
    prior_period=3_600.0,
    discovery_share=0.125,
    audit_share=0.125,
    sources_max=8,
)


def settings_of(picker: str, number: type[int] | type[float]) -> dict[str, Any]:
    """Return the settings with whole numbers written as ints, or as floats where they may be."""
    values = {**asdict(SETTINGS), "picker": picker}
    return {
        name: number(value) if isinstance(value, float) and value.is_integer() else value
        for name, value in values.items()
    }


def story_of(**settings: Any) -> Story:
    """Return a story with an event of each kind."""
    story = Story(**settings)
    page = story.add(40, group=np.arange(40) % 7, kind=np.arange(40) % 3)
    story.budget(1_000.0, 1)
    story.set_group(3, delay_ms=5, in_flight_max=4, burst=2)
    story.apply(ev.event_of(ev.SourcesSet, source=1, precision=0.5, delay_seconds=np.nan))
    for n in range(1, 12):
        story.signal(page[::3], n * HOUR - 60, source=n % 3)
        story.signal(page[:2], n * HOUR - 50, source=[9, 1])  # 9 is beyond any source
        story.fetch(page, np.arange(40) % 4, at=n * HOUR)
    shard = story.shard
    kind = {"epoch": 1, "kind": [0, 1]}
    for event in (
        ev.event_of(ev.RequestsSeen, page=page[:9], n_requests=3.0, at_ms=shard.now_ms),
        ev.event_of(ev.ImportanceSet, page=page[:5], importance=2.0),
        ev.event_of(ev.CostsSet, page=page[:5], cost=2.0),
        ev.event_of(ev.KindsSet, page=page[:5], kind=4),
        ev.event_of(
            ev.CurvesSet, page=page[5:9], ceiling=0.5, ratio=2.0, scroll_items=[0, 9, 9, 9]
        ),
        ev.event_of(
            ev.LimitsSet,
            page=page[9:12],
            interval_seconds_min=60.0,
            interval_seconds_max=DAY,
            stale_seconds=HOUR,
            stale_probability=[0.0, 0.1, 0.1],
        ),
        ev.event_of(ev.PriorsSet, **kind, shape=0.5, seconds=DAY),
        ev.event_of(ev.KindsWeighted, **kind, weight=2.0),
        shard.tick(shard.now_ms + 3_600_000),
    ):
        story.apply(event)
    for hours, exact in itertools.product((1, 20, 500), (False, True)):
        orders = shard.decide(shard.now_ms + hours * 3_600_000, 9, exact=exact)
        story.apply(orders)
        story.apply(ev.event_of(ev.LeasesReleased, order=orders.order[:2]))
        story.apply(
            ev.event_of(
                ev.LeasesExtended,
                order=orders.order[2:4],
                expires_at_ms=orders.expires_at_ms[2:4] + 1000,
            )
        )
        story.report(orders.page[4:6], order=orders.order[4:6])
        story.apply(shard.overdue(shard.now_ms + 90_000))
    story.remove(page[3:5])
    shard.learn_priors()
    shard.weigh_kinds({0: 0.5}, shard.now_ms)
    shard.explain(int(page[0]))
    return story


def replay(log: list[ev.Event], settings: ShardSettings) -> Shard:
    """Apply a log as it was made, as Arrow streams and as records; return the last shard."""
    shard = Shard(settings)
    for batches in (
        log,
        ev.decode_events(ev.encode_events(log)),
        [ev.from_record(*ev.to_record(e)) for e in log],
    ):
        shard = Shard(settings)
        shard.apply_all(batches)
    manifest, data = write_snapshot(shard.snapshot("end"))
    restored, _ = Shard.restore(manifest, data)
    restored.apply(restored.decide(restored.now_ms + 1_000))
    return restored


def versions() -> Iterator[tuple[str, list[str]]]:
    """Yield each kernel of the shard that was compiled, and the signatures it was compiled for.

    A kernel has one version for calls from Python and one for calls from other kernels.
    """
    for module_name, module in sorted(sys.modules.items()):
        if module_name.startswith("recrawl.shard"):
            for name, kernel in vars(module).items():
                function = getattr(kernel, "py_func", None)
                if function and function.__module__ == module_name:
                    called = kernel.for_callers()
                    signatures = {*map(str, kernel.signatures), *map(str, called.signatures)}
                    if signatures:
                        yield f"{module_name}.{name}", sorted(signatures)


if __name__ == "__main__":
    faults = record_log(3, 1_000)
    for picker, number in itertools.product(("scan", "sweep"), (int, float)):
        given = settings_of(picker, number)
        replay(story_of(**given).log, ShardSettings(**given))
        replay(faults, ShardSettings(**given))
    sys.stdout.write(json.dumps(dict(versions())))
