"""The pictures of the dashboard are taken, of a small corpus with a short past."""

from pathlib import Path

import pytest

from benchmarks import dashboard_pictures


@pytest.mark.slow_without_jit
def test_there_is_a_picture_of_every_page(tmp_path: Path) -> None:
    output = tmp_path / "pictures"
    found = dashboard_pictures.measure(
        600, output, days=0.3, minutes=5.0, folder=tmp_path / "corpus"
    )
    assert found["findings"] == {}
    names = set(found["first_and_second_seconds"])
    assert {"overview", "plan", "host", "source-on-host", "page-with-text", "login"} <= names
    pictures = {f"{name}-{end}" for name in names for end in ("1440-light", "390-dark")}
    assert pictures <= {one.stem for one in output.glob("*.png")}
