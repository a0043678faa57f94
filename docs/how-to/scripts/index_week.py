"""Count the embeddings of a simulated week, compared with two simpler ways to keep an index fresh.

    python index_week.py "host=/tmp/pg dbname=index" FOLDER

The pages are simulated (`recrawl.sim.pages`): news, products, documentation and others, with menus,
clocks, advertisements and wrong answers.  Every night the corpus fetches the pages that most likely
changed.
"""

import sys
from pathlib import Path

import fresh_index

import recrawl
from recrawl.corpus import CorpusConfig
from recrawl.sim.pages import START_AT, make_site

KINDS = (
    "news_article",
    "news_front",
    "blog_post",
    "documentation",
    "wiki_article",
    "forum_thread",
    "product",
    "changelog",
)
PAGES_PER_SITE = 12
FETCHES_PER_NIGHT = 60
DAY = 86_400
CONFIG = CorpusConfig.from_dict(
    {
        "budget": {"rate": f"{FETCHES_PER_NIGHT}/run"},
        "content": {"keep_text": True},
        "politeness": {"delay": 0, "in_flight_max": 100, "burst": 100},
    }
)


class Nights:
    """A clock that stands at one o'clock every night."""

    now = START_AT + 3_600

    def wall_ms(self):
        return 1000 * self.now

    def running_ms(self):
        return 1000 * self.now

    def sleep(self, seconds):
        self.now += seconds


def fetch_all(corpus, pages, clock, run):
    """Fetch what the corpus orders until the budget of the run is spent."""
    while orders := corpus.lease(20, run=run):
        outcomes = []
        for order in orders:
            site, page = pages[order.url]
            answer = site.answer(page, clock.now)
            outcomes.append(
                recrawl.Outcome(
                    handle=order.handle, body=answer.body, content_type=answer.content_type
                )
            )
        corpus.report(outcomes)


def main(database, folder):
    """Run seven nights, and print what each way of refreshing would have embedded."""
    sites = [make_site(kind, seed=1, n_pages=PAGES_PER_SITE) for kind in KINDS]
    pages = {site.url(page): (site, page) for site in sites for page in range(PAGES_PER_SITE)}
    index = fresh_index.PassageIndex(database, str(Path(folder) / "vectors"))
    clock, n_first, n_whole, n_nightly = Nights(), 0, 0, 0
    with recrawl.open(Path(folder) / "corpus", CONFIG, clock=clock) as corpus:
        corpus.add(list(pages))
        for night in range(7):
            clock.now = START_AT + night * DAY + 3_600
            fetch_all(corpus, pages, clock, f"night {night}")
            for change in corpus.changes(index.place()):
                if change.what.name == "NEW":
                    n_first += len(change.passages.added)
                elif change.passages is not None:
                    n_whole += len(change.passages.kept) + len(change.passages.added)
            fresh_index.update_index(corpus, index)
            n_nightly += index.database.execute("SELECT count(*) FROM passage").fetchone()[0]
    print(f"{len(pages)} pages, 7 nights of {FETCHES_PER_NIGHT} fetches")
    print(f"{n_first:6} embeddings to fill the index; after that")
    print(f"{index.n_embedded - n_first:6} embeddings of new passages, or")
    print(f"{n_whole:6} embeddings of all passages of changed pages, or")
    print(f"{n_nightly - n_first:6} embeddings of everything every night")
    longest = "SELECT url, text FROM passage ORDER BY length(text) DESC, url"
    wanted = index.database.execute(longest).fetchone()
    print("a search finds the longest passage:", wanted in index.search(wanted[1]))


if __name__ == "__main__":
    main(*sys.argv[1:])
