import numpy as np
import pytest

from recrawl.sim import Bookkeeper, Content, Flapping, Replaces, Sum, Times, Web, make_web
from recrawl.sim.web.draws import Stream, key_of, uniform_of
from tests.reference import sim_accounts

HORIZON = 100.0
STEP = 1 / 64  # change and fetch times are multiples of it, so the grid is exact


def rounded(web: Web) -> Web:
    """Return the web with all changes on the grid, which brute force needs to be exact."""
    at = np.ceil(web.changes.at / STEP) * STEP
    return web._replace(changes=Times(web.changes.offsets, at))


@pytest.fixture(params=list(Replaces)[:3], ids=lambda order: order.name)
def web(request: pytest.FixtureRequest) -> Web:
    rng = np.random.default_rng(5)
    n_pages = 6
    return rounded(
        make_web(
            3,
            HORIZON,
            rng.uniform(0.05, 0.6, n_pages),
            importance=rng.uniform(0.5, 2, n_pages),
            flapping=Flapping(share=0.3, seconds=3.0),
            content=Content.of(n_pages, replaces=request.param, n_items=5, static_items=2.0),
        )
    )


def fetch_log(n_pages: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(9)
    at = np.sort(rng.choice(np.arange(1, int(HORIZON / STEP)), 80, replace=False)) * STEP
    return rng.integers(0, n_pages, at.size), at


@pytest.mark.slow_without_jit
@pytest.mark.parametrize("burn_in", [0.0, 25.0])
def test_the_account_agrees_with_a_brute_force_one(web: Web, burn_in: float) -> None:
    page, at = fetch_log(web.n_pages)
    books = Bookkeeper(web, burn_in_seconds=burn_in, very_stale_seconds=4.0)
    for rows in np.array_split(np.arange(page.size), 7):  # in batches, as a driver does
        books.record(page[rows], at[rows])
    account = books.close()
    grid = np.arange(0, HORIZON, STEP) + STEP / 2
    counted = grid > burn_in
    halves = grid > (burn_in + HORIZON) / 2
    expected = np.zeros((2, len(Sum)))
    order = {0: "all", 1: "oldest", 2: "any"}[int(web.content.replaces[0])]
    for p in range(web.n_pages):
        mine = slice(web.changes.offsets[p], web.changes.offsets[p + 1])
        changed_at, versions = web.changes.at[mine].tolist(), web.version[mine].tolist()
        now = sim_accounts.versions_on_a_grid(changed_at, versions, grid)
        copy = sim_accounts.copies_on_a_grid(at[page == p], changed_at, versions, grid)
        key = np.uint64(key_of(web.seed, Stream.ITEMS, p))
        picks = [int(uniform_of(key, v) * 5) for v in range(1, max(versions, default=0) + 1)]
        shown = sim_accounts.items_of_versions(order, 5, picks)

        def content(version: int, shown: list[list[str]] = shown) -> list[str]:
            return shown[version] if version >= 0 else [f"x{version} {k}" for k in range(5)]

        wrong = np.array(
            [
                sim_accounts.jaccard_distance(content(a), content(b), 2) if a != b else 0.0
                for a, b in zip(now, copy, strict=True)
            ]
        )
        fresh = np.array(now) == np.array(copy)
        very = np.zeros(grid.size)
        # A fetch that finds the same excursion still begins the copy anew.
        since = 0.0
        fetches = set(at[page == p].tolist())
        for i, stale in enumerate(~fresh):
            since = 0.0 if grid[i] - STEP / 2 in fetches else since
            since = since + STEP if stale else 0.0
            very[i] = since > 4.0 + STEP / 4
        for part, inside in enumerate([counted & ~halves, counted & halves]):
            for column, quantity in ((Sum.SECONDS, np.ones(grid.size)), (Sum.FRESH, fresh),
                                     (Sum.WRONG, wrong), (Sum.VERY_STALE, very)):  # fmt: skip
                expected[part, column] += (quantity * inside).sum() * STEP
                expected[part, Sum.WEIGHTED + column] += (
                    web.importance[p] * (quantity * inside).sum() * STEP
                )
    np.testing.assert_allclose(account.sums[:, :8], expected[:, :8], rtol=1e-9, atol=1e-9)


def test_the_time_to_notice_is_that_to_the_next_fetch_or_the_end() -> None:
    times = Times(np.array([0, 3]), np.array([1.0, 2.0, 9.0]))
    books = Bookkeeper(make_web(0, 10.0, [0.0], changes=times), very_stale_seconds=3.0)
    books.record([0], [5.0])
    account = books.close()
    assert account.total(Sum.NOTICE_SECONDS) == 4.0 + 3.0 + 1.0
    assert account.total(Sum.LATE) == 1
    assert account.total(Sum.UNNOTICED) == 1
    assert account.changed_share == 1.0


def test_requests_see_the_copy_of_their_moment() -> None:
    times = Times(np.array([0, 1]), np.array([4.0]))
    web = make_web(0, 10.0, [0.0], changes=times)
    web = web._replace(requests=Times(np.array([0, 4]), np.array([1.0, 3.0, 5.0, 7.0])))
    books = Bookkeeper(web)
    books.record([0], [6.0])
    assert books.close().seen_freshness == 0.75


def test_expected_requests_are_weighted_by_importance() -> None:
    """Within 5 standard errors of the binomial (fails 1 in 1.7 million)."""
    web = make_web(1, 1e4, np.full(50, 1e-3), importance=np.arange(1, 51.0), requests_per_second=2)
    account = Bookkeeper(web).close()
    n = account.total(Sum.REQUESTS)
    error = np.sqrt(account.freshness * (1 - account.freshness) / n)
    assert abs(account.seen_freshness - account.freshness) < 5 * error


def test_pages_without_a_copy_are_stale_with_divergence_one() -> None:
    books = Bookkeeper(make_web(0, 10.0, [0.0]), has_copies=False)
    books.record([0], [4.0])
    account = books.close()
    assert account.freshness == 0.6
    assert account.fragment_staleness == 0.4
    assert account.changed_share == 0.0


def test_a_failed_fetch_costs_a_fetch_and_refreshes_nothing() -> None:
    web = make_web(0, 10.0, [0.0], cost=3.0, changes=Times(np.array([0, 1]), np.array([2.0])))
    books = Bookkeeper(web)
    books.record([0], [5.0], [True])
    account = books.close()
    assert account.freshness == 0.2
    assert (account.n_fetches, account.total(Sum.COST), account.total(Sum.ERRORS)) == (1, 3.0, 1)


def test_parts_add_up() -> None:
    web = make_web(0, 100.0, np.full(20, 0.1))
    books = Bookkeeper(web, n_parts=4)
    books.record(np.arange(20), np.full(20, 50.0))
    account = books.close()
    parts = [account.part(k) for k in range(4)]
    assert sum(part.total(Sum.FRESH) for part in parts) == pytest.approx(account.total(Sum.FRESH))
    assert account.part(2).n_fetches == 20


def test_recorded_divergences_are_used() -> None:
    web = make_web(0, 10.0, [0.0], changes=Times(np.array([0, 1]), np.array([5.0])))
    table = web.content._replace(
        replaces=np.array([Replaces.AS_RECORDED], np.int8), table=np.array([0.25], np.float32)
    )
    account = Bookkeeper(web._replace(content=table)).close()
    assert account.fragment_staleness == 0.125


@pytest.mark.parametrize(
    "setting", [{"horizon": 200.0}, {"burn_in_seconds": 100.0}, {"n_parts": 0}]
)
def test_invalid_horizons_and_parts_raise(setting: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must be"):
        Bookkeeper(make_web(0, 100.0, [0.0]), **setting)  # type: ignore[arg-type]
