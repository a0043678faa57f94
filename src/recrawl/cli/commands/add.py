"""``recrawl add``: add pages to track, from URLs, lists, tables and sitemaps."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from recrawl.cli.support.corpora import checked_arguments, corpus_option, open_to_change
from recrawl.cli.support.examples import Example, example_command
from recrawl.cli.support.presenting import Output, output_option
from recrawl.cli.support.sources import (
    REASONS_SHOWN_MAX,
    column_option,
    format_option,
    inputs_argument,
    listed_batch,
    opened,
    progressing,
    say_refused,
    split_inputs,
)
from recrawl.errors import RecrawlError
from recrawl.units import count_text

if TYPE_CHECKING:
    import pyarrow as pa

    from recrawl.corpus import Corpus

__all__ = ["command"]

_PROBLEMS = {
    "NOT_TEXT": "not text",
    "NOT_A_URL": "not a URL",
    "SCHEME": "neither http nor https",
    "TOO_LONG": "too long",
    "CREDENTIALS": "with a user or a password",
}
_AMOUNT_MAX = 1e12


class _Adding:
    """Pages that are being added, and what became of them."""

    def __init__(self, corpus: "Corpus", importance: float | None, cost: float | None) -> None:
        self._corpus = corpus
        self._given = {"importance": importance, "cost": cost}
        self.n_added = self.n_known = 0
        self.problems: Counter[str] = Counter()
        self.examples: list[str] = []

    def add(self, batch: "pa.RecordBatch") -> None:
        """Add the pages of a batch; what the file says of a page goes before what options say."""
        import numpy as np  # noqa: PLC0415
        import pyarrow as pa  # noqa: PLC0415

        amounts = {name: self._amounts(batch, name) for name in self._given}
        is_wrong = np.zeros(batch.num_rows, np.bool_)
        for amount in amounts.values():
            is_wrong |= (amount < 0) | (amount > _AMOUNT_MAX)
        if is_wrong.any():
            self._refuse(batch.column("url").filter(pa.array(is_wrong)), "importance or cost wrong")
        # Pages that say the same things of themselves are added together.
        says = sum(np.isfinite(amount) << i for i, amount in enumerate(amounts.values()))
        for what in np.unique(says):
            rows = np.flatnonzero((says == what) & ~is_wrong)
            url = batch.column("url").take(pa.array(rows))
            told = {
                name: amount[rows]
                for i, (name, amount) in enumerate(amounts.items())
                if int(what) >> i & 1
            }
            added = self._corpus.add(url, **told)
            self.n_added += added.n_added
            self.n_known += added.n_known
            if added.n_refused:
                self._refuse_urls(url)

    def _amounts(self, batch: "pa.RecordBatch", name: str) -> Any:
        import numpy as np  # noqa: PLC0415

        given = self._given[name]
        column = batch.column(name).to_numpy(zero_copy_only=False).astype(np.float64)
        return np.where(np.isnan(column), np.nan if given is None else given, column)

    def _refuse_urls(self, url: "pa.Array") -> None:
        import numpy as np  # noqa: PLC0415
        import pyarrow as pa  # noqa: PLC0415

        from recrawl.urls import UrlProblem, canonical  # noqa: PLC0415

        problem = canonical(url).problem
        for number in np.unique(problem[problem > 0]):
            wrong = url.filter(pa.array(problem == number))
            self._refuse(wrong, _PROBLEMS[UrlProblem(number).name])

    def _refuse(self, url: "pa.Array", reason: str) -> None:
        self.problems[reason] += len(url)
        for text in url[:REASONS_SHOWN_MAX].to_pylist():
            if len(self.examples) < REASONS_SHOWN_MAX:
                self.examples.append(f"{reason}: {str(text)[:80]!r}")


@example_command(
    "add",
    examples=(
        Example("recrawl add urls.txt"),
        Example("recrawl add https://example.com/ https://example.com/news"),
        Example("recrawl add products.csv --column url=link", "a column of another name"),
        Example("recrawl add sitemap.xml --importance 2"),
        Example("cat urls.txt | recrawl add"),
    ),
)
@inputs_argument
@format_option
@column_option
@click.option(
    "--importance", type=click.FloatRange(0), metavar="X", help="Of pages that say none themselves."
)
@click.option(
    "--cost", type=click.FloatRange(0), metavar="X", help="Of pages that say none themselves."
)
@corpus_option
@output_option
def command(
    inputs: tuple[str, ...],
    format_name: str | None,
    columns: tuple[str, ...],
    importance: float | None,
    cost: float | None,
    folder: Path,
    out: Output,
) -> None:
    """Keep pages.

    From lists of URLs, CSV, JSON lines and sitemaps, compressed or not; stdin if nothing is
    named.  Pages that are kept already stay as they are.
    """
    told = split_inputs(inputs)
    with open_to_change(folder, n_bytes_input=told.n_bytes) as corpus, checked_arguments():
        adding = _Adding(corpus, importance, cost)
        n_refused = 0
        if told.urls:
            adding.add(listed_batch(told.urls))
        for file in told.files:
            name = file.name
            source = opened(file, format_name=format_name, columns=columns)
            if source.kind != "listed":
                raise RecrawlError(
                    f"{name} tells of fetches ({source.format}).\nLearn from it, and keep its "
                    f"pages, with `recrawl import {name}`."
                )
            for batch in progressing(source, file, out):
                adding.add(batch)
            say_refused(source, name, out)
            n_refused += source.refused.n_refused
    n_wrong = sum(adding.problems.values())
    out.row(
        {
            "n_added": adding.n_added,
            "n_known": adding.n_known,
            "n_refused": n_wrong + n_refused,
            "refused_by_reason": dict(adding.problems),
        }
    )
    parts = [f"{count_text(adding.n_added, 'page')} added", f"{adding.n_known:,} known already"]
    parts += [f"{n_wrong + n_refused:,} refused"] if n_wrong + n_refused else []
    out.say(", ".join(parts) + ".")
    for text in adding.examples:
        out.note(f"  {text}")
    if n_wrong > len(adding.examples):
        reasons = ", ".join(f"{n:,} {reason}" for reason, n in adding.problems.most_common())
        out.note(f"  … in all {reasons}")
