"""Tests of ``recrawl bench``: policies from files, ranks, and results files."""

import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from recrawl.refreshbench import Results, Score, known_webs, write_results
from tests.unit.cli.conftest import Recrawl

pytestmark = pytest.mark.slow

POLICY = """
import numpy as np


class Turns:
    def start(self, pages, at):
        self.n_pages, self.next = pages.importance.size, 0

    def on_signals(self, at, page, source, claimed_at):
        pass

    def pick(self, at, n):
        pages = (self.next + np.arange(n)) % self.n_pages
        self.next += n
        return pages

    def learn(self, at, page, outcomes):
        pass
"""


@pytest.fixture(autouse=True)
def same_path_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the folders of policies from the module path after each test."""
    monkeypatch.setattr(sys, "path", list(sys.path))


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    path = folder / "bench_turns.py"
    path.write_text(POLICY)
    return path


def test_tracks_are_listed(recrawl: Recrawl) -> None:
    ran = recrawl("bench", "--tracks")
    assert [row["name"] for row in ran.rows][:2] == ["unlike-rates", "signals"]
    assert "terms" in recrawl("bench", "--tracks", "--no-json").out
    assert "terms" not in recrawl("bench", "--tracks", "--quick", "--no-json").out


@pytest.mark.slow_without_jit
def test_a_policy_is_ranked_and_its_results_can_be_checked(recrawl: Recrawl, policy: Path) -> None:
    arguments = ("bench", policy, "--quick", "--track", "unlike-rates")
    ran = recrawl(*arguments, "--out", "results.json")
    assert ran.code == 0
    standings = [row for row in ran.rows if row["what"] == "standing"]
    places = {row["policy"]: row["place"] for row in standings}
    # It is a policy of the league under another name.
    assert abs(places["Turns"] - places["round robin"]) == 1
    assert places["recrawl"] < places["Turns"]
    assert places["oracle"] is None
    by_name = {row["policy"]: row for row in standings}
    assert by_name["round robin"]["ahead"]["value"] == pytest.approx(0.0, abs=1e-6)

    checked = recrawl("bench", "--check", "results.json", "--no-json")
    assert checked.code == 0
    assert "4 scores of Turns on known webs" in checked.out
    again = recrawl("bench", policy, "--check", "results.json")
    assert again.rows[-1]["n_again"] == 4

    content = json.loads(Path("results.json").read_text())
    content["policy_sha256"] = "deadbeef"
    content["scores"][0]["very_stale_share"] = 0.0
    Path("results.json").write_text(json.dumps(content))
    wrong = recrawl("bench", policy, "--check", "results.json", "--no-json")
    assert wrong.code == 3
    assert "the file says deadbeef" in wrong.out.replace("\n", " ")
    assert "the file says 0.0000" in wrong.out.replace("\n", " ")


@pytest.mark.slow_without_jit
def test_the_open_webs_are_for_developing(recrawl: Recrawl, policy: Path) -> None:
    arguments = ("bench", policy, "--quick", "--open", "--track", "unlike-rates")
    ran = recrawl(*arguments, "--out", "results.json")
    assert {row["web"] for row in ran.rows if row["what"] == "score"} == {0, 1}
    (place,) = [row for row in ran.rows if row["what"] == "place"]
    assert place["n_placed"] > 10
    again = recrawl("bench", policy, "--check", "results.json")
    assert (again.code, again.rows[-1]["n_again"]) == (0, 4)


@pytest.mark.slow_without_jit
def test_text_gives_the_rank(recrawl: Recrawl, policy: Path) -> None:
    ran = recrawl("bench", policy, "--quick", "--track", "unlike-rates", "--no-json")
    assert "unlike-rates: rank " in ran.out
    assert "▶ Turns" in ran.out
    assert "The oracle knows each page's change rate." in ran.out


NEVER = POLICY.replace("return pages", "return pages[:0]")


def known_scores(policies: Sequence[str], *, budgets: Sequence[int]) -> tuple[Score, ...]:
    """Return scores of other policies on the first two held-out webs, at some budgets."""
    return tuple(
        Score(
            track="unlike-rates",
            web=web,
            budget=budget,
            policy=policy,
            n_fetches=10,
            freshness=0.9,
            very_stale_share=0.0,
            fragment_staleness=math.nan,
            part_freshness=(0.9,),
            seconds=0.0,
        )
        for policy in policies
        for web in (5, 6)
        for budget in budgets
    )


@pytest.mark.parametrize(
    ("budgets", "place", "said"),
    [
        # Scores that --quick does not run, scores at one of its two budgets, and at both.
        ((1, 3), None, "no rank, because there are no scores to compare with"),
        ((0, 1), 3, "2 of them have no scores"),
        ((0, 2), 3, "rank 3 of 3"),
    ],
)
@pytest.mark.slow_without_jit
def test_without_other_scores_there_is_no_rank(
    recrawl: Recrawl,
    policy: Path,
    monkeypatch: pytest.MonkeyPatch,
    budgets: tuple[int, ...],
    place: int | None,
    said: str,
) -> None:
    scores = known_scores(["a", "b"], budgets=budgets)
    monkeypatch.setattr("recrawl.refreshbench.reference_scores", lambda: scores)
    policy.write_text(NEVER)
    arguments = ("bench", policy, "--quick", "--track", "unlike-rates")
    (row,) = [row for row in recrawl(*arguments).rows if row["what"] == "place"]
    assert row["place"] == place
    assert row["n_not_compared"] == (2 if place is None else 0)
    assert said in recrawl(*arguments, "--no-json").out.replace("\n", " ")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("return pages", "return pages + 500", "pick must return pages from 0 to 499"),
        ("return pages", "return [0] * 1_000", "pick must return a column of page numbers"),
        ("return pages", "return np.arange(n + 1)", "pages, got"),
        ("return pages", "return 1 // 0", "ZeroDivisionError"),
        ("return pages", "raise SystemExit(7)", "SystemExit: 7"),
        ("    def start", "    def __init__(self, wait): ...\n    def start", "'wait'"),
    ],
)
def test_an_error_in_a_policy_is_a_message(
    recrawl: Recrawl, policy: Path, old: str, new: str, said: str
) -> None:
    policy.write_text(POLICY.replace(old, new))
    ran = recrawl("bench", policy, "--quick", "--track", "unlike-rates")
    assert ran.code == 1
    assert "Turns failed on web 5 of unlike-rates at budget 1" in ran.err
    assert said in ran.err.replace("\n", " ")
    assert len(ran.err) < 500


def test_an_error_in_a_policy_names_the_line(recrawl: Recrawl, policy: Path) -> None:
    policy.write_text(POLICY.replace("return pages", "return 1 // 0"))
    ran = recrawl("bench", policy, "--quick", "--track", "unlike-rates")
    line = POLICY[: POLICY.index("return pages")].count("\n") + 1
    assert f"(line {line} of bench_turns.py)" in ran.err.replace("\n", " ")


@pytest.mark.parametrize("name", ["random", "numpy"])
def test_a_file_may_have_the_name_of_an_installed_module(
    recrawl: Recrawl, policy: Path, name: str
) -> None:
    before = sys.modules.get(name)
    named = policy.with_name(f"{name}.py")
    named.write_text(POLICY.replace("return pages", "return 1 // 0"))
    ran = recrawl("bench", named, "--quick", "--track", "unlike-rates")
    assert "ZeroDivisionError" in ran.err
    assert sys.modules.get(name) is before


def test_a_policy_may_be_in_a_module(recrawl: Recrawl, policy: Path) -> None:
    Path("bench_module.py").write_text(POLICY.replace("return pages", "return 1 // 0"))
    ran = recrawl("bench", "bench_module:Turns", "--quick", "--track", "unlike-rates")
    assert "of bench_module.py)" in ran.err.replace("\n", " ")
    assert "has no Others" in recrawl("bench", "bench_module:Others", "--quick").err


def test_broken_recorded_data_is_a_message(
    recrawl: Recrawl, policy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "change_traces.parquet").write_bytes(b"PAR1 and no more")
    monkeypatch.setenv("RECRAWL_DATA", str(tmp_path))
    ran = recrawl("bench", policy, "--track", "traces")
    assert ran.code == 1
    assert "traces cannot be made of change_traces.parquet" in ran.err.replace("\n", " ")


@pytest.mark.parametrize("name", ["oracle", "recrawl", "YaCy"])
def test_names_of_league_policies_are_refused(recrawl: Recrawl, policy: Path, name: str) -> None:
    policy.write_text(POLICY.replace("Turns", name))
    ran = recrawl("bench", policy, "--quick")
    assert ran.code == 2
    assert f"{name} is the name of a policy of the league" in ran.err.replace("\n", " ")


def test_a_check_that_can_repeat_nothing_is_a_usage_error(
    recrawl: Recrawl, policy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RECRAWL_DATA", raising=False)
    score = known_scores(["Turns"], budgets=[0])[0]._replace(
        track="traces", web=1, part_freshness=(0.9,) * 12
    )
    digest = known_webs()["traces", 1].digest
    write_results(
        Results(policy="Turns", policy_digest="", scores=(score,), webs={"traces 1": digest}),
        Path("results.json"),
    )
    assert recrawl("bench", "--check", "results.json").code == 0
    ran = recrawl("bench", policy, "--check", "results.json")
    assert ran.code == 2
    assert "no run of traces can be repeated" in ran.err


def test_recorded_tracks_without_data_are_skipped_with_a_note(
    recrawl: Recrawl, policy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RECRAWL_DATA", raising=False)
    ran = recrawl("bench", policy, "--track", "terms", "--out", "results.json")
    assert "Skipping terms: RECRAWL_DATA does not name a folder with ota_crawl_log" in ran.err
    # No track is left, and a results file without scores would be useless.
    assert ran.code == 2
    assert "there is nothing to run" in ran.err
    assert not Path("results.json").exists()


def test_several_policy_classes_need_a_class_name(recrawl: Recrawl, policy: Path) -> None:
    policy.write_text(POLICY + "\n\nclass More(Turns):\n    pass\n")
    ran = recrawl("bench", policy, "--quick")
    assert ran.code == 2
    assert "must have one class" in ran.err
    assert "Turns, More" in ran.err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1\n", "got none"),
        ("raise OSError('no')\n", "OSError: no"),
        ("import sys\nsys.exit(7)\n", "SystemExit: 7"),
        ("class Half:\n    def start(self): ...\n", "got none"),
    ],
)
def test_files_without_a_policy_are_refused(
    recrawl: Recrawl, policy: Path, text: str, said: str
) -> None:
    policy.write_text(text)
    ran = recrawl("bench", policy, "--quick")
    assert ran.code == 2
    assert said in ran.err.replace("\n", " ")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "name a POLICY"),
        (("nowhere.py",), "there is no file"),
        (("nothing",), "must be FILE.py"),
        (("no_module_of_this_name:Policy",), "Invalid value for POLICY"),
        (("x.py", "--out", "no/folder.json"), "Invalid value for --out"),
        (("--tracks", "--track", "other"), "must be one of"),
    ],
)
def test_wrong_usage_is_a_message(recrawl: Recrawl, arguments: tuple[str, ...], said: str) -> None:
    ran = recrawl("bench", *arguments)
    assert ran.code == 2
    assert said in ran.err
