"""The scores that come with the package are complete."""

from itertools import product

from recrawl.refreshbench import ORACLE, TRACKS, known_webs, reference_scores


def test_every_policy_was_run_on_the_same_webs_at_every_budget() -> None:
    for track in TRACKS:
        scores = [score for score in reference_scores() if score.track == track.name]
        policies = {score.policy for score in scores}
        assert {"recrawl", ORACLE, "Nutch adaptive", "round robin"} <= policies
        # A web may not have been run yet, but for the first that is held out.
        webs = {score.web for score in scores}
        assert track.n_webs in webs
        runs = set(product(webs, range(4), policies))
        assert {(score.web, score.budget, score.policy) for score in scores} == runs
        assert len(scores) == len(runs)


def test_scores_are_possible() -> None:
    for score in reference_scores():
        assert 0 < score.freshness < 1
        assert 0 <= score.very_stale_share <= 1 - score.freshness + 1e-6
        assert len(score.part_freshness) == len(known_webs()[score.track, score.web].part_weights)


def test_nobody_spends_more_than_the_budget() -> None:
    for score in reference_scores():
        track = next(track for track in TRACKS if track.name == score.track)
        page_days = known_webs()[score.track, score.web].page_days
        allowed = track.fetches_per_page_day[score.budget] * page_days
        assert score.n_fetches <= allowed * 1.0001
