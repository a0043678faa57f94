"""The data card says what the settings are."""

from pathlib import Path

import pytest

from recrawl.refreshbench import TRACKS, Track, known_webs

CARD = Path(__file__).parents[3] / "docs" / "reference" / "refreshbench.md"


@pytest.mark.parametrize("track", TRACKS, ids=lambda track: track.name)
def test_the_table_has_the_settings_of_each_track(track: Track) -> None:
    text = CARD.read_text(encoding="utf-8")
    (row,) = [line for line in text.splitlines() if line.startswith(f"| `{track.name}` |")]
    web = known_webs()[track.name, 0]
    held_out = known_webs()[track.name, track.n_webs]
    assert str(web.n_pages) in row
    assert str(held_out.n_pages) in row
    assert f"{web.days:.0f} days" in row or f"{24 * web.days:.0f} h" in row
    assert ", ".join(f"{budget:g}" for budget in track.fetches_per_page_day) in row
    assert f"| {track.very_stale_seconds / 86_400:g} day" in row
    assert all(f"`{name}`" in row for name in track.needs)
    assert track.oracle_knows in " ".join(text.split())
    assert track.is_recorded or f"| {track.n_webs} and {track.n_held_out} |" in row
