"""``recrawl add``: add pages to track, from URLs, lists, tables and sitemaps."""

from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from recrawl.cli.support.corpus_access import (
    CorpusPlace,
    corpus_or_service_option,
    open_to_change,
    value_errors_as_usage,
)
from recrawl.cli.support.examples import CommandExample, example_command
from recrawl.cli.support.input_files import (
    LIST_FORMATS,
    REASONS_SHOWN_MAX,
    batches_with_progress,
    column_option,
    format_option,
    has_keys,
    inputs_argument,
    key_argument,
    key_option,
    metadata_fields,
    metadata_option,
    open_input,
    show_fields,
    show_ignored,
    show_refused,
    split_inputs,
    url_batch,
)
from recrawl.cli.support.output import (
    Output,
    check_none_unavailable,
    count_unavailable,
    output_option,
)
from recrawl.errors import RecrawlError
from recrawl.units import count_text, seconds_text, share_text

if TYPE_CHECKING:
    import pyarrow as pa

    from recrawl.corpus import Corpus

__all__ = ["command"]

_AMOUNT_MAX = 1e12


class _PageAdder:
    """Adds pages in batches, and counts those added, tracked already, and refused."""

    def __init__(
        self,
        corpus: "Corpus",
        importance: float | None,
        cost: float | None,
        key: str | None,
    ) -> None:
        self._corpus = corpus
        self._key = key
        self._options = {"importance": importance, "cost": cost}
        self.n_added = self.n_known = self.n_limited = self.limited_until_ms = 0
        self.n_unavailable = 0
        self.problems: Counter[str] = Counter()
        self.examples: list[str] = []

    def add(self, batch: "pa.RecordBatch") -> None:
        """Add the pages of a batch; values in the file override the options."""
        import numpy as np  # noqa: PLC0415
        import pyarrow as pa  # noqa: PLC0415

        amounts = {name: self._amounts(batch, name) for name in self._options}
        is_wrong = np.zeros(batch.num_rows, np.bool_)
        for amount in amounts.values():
            is_wrong |= (amount < 0) | (amount > _AMOUNT_MAX)
        if is_wrong.any():
            self._refuse(
                batch.column("url").filter(pa.array(is_wrong)), "importance or cost out of range"
            )
        # One call of `Corpus.add` sets importance and cost for all of its pages or for none.  So
        # each combination of values that are given (bit i for the i-th) is a call of its own.
        combination = sum(np.isfinite(amount) << i for i, amount in enumerate(amounts.values()))
        for given in np.unique(combination):
            rows = np.flatnonzero((combination == given) & ~is_wrong)
            url = batch.column("url").take(pa.array(rows))
            values = {
                name: amount[rows]
                for i, (name, amount) in enumerate(amounts.items())
                if int(given) >> i & 1
            }
            own: dict[str, Any] = {
                name: batch.column(name).take(pa.array(rows))
                for name in ("doc_id", "metadata")
                if batch.column(name).null_count < batch.num_rows
            }
            own |= key_argument(self._corpus, self._key, batch.column("key").take(pa.array(rows)))
            added = self._corpus.add(url, **values, **own)
            self.n_added += added.n_added
            self.n_known += added.n_known
            self.n_limited += added.n_limited
            self.n_unavailable += count_unavailable(added.rows)
            self.limited_until_ms = max(self.limited_until_ms, added.limited_until_ms)
            if added.n_refused:
                self._refuse_rows(url, own)

    def _amounts(self, batch: "pa.RecordBatch", name: str) -> Any:
        """Return the values of a column, the option's value where it has none, or else nan."""
        import numpy as np  # noqa: PLC0415

        option = self._options[name]
        column = batch.column(name).to_numpy(zero_copy_only=False).astype(np.float64)
        return np.where(np.isnan(column), np.nan if option is None else option, column)

    def _refuse_rows(self, url: "pa.Array", own: dict[str, Any]) -> None:
        import pyarrow as pa  # noqa: PLC0415

        rows_by_reason: dict[str, list[int]] = {}
        for row, reason in self._corpus.why_refused(url, **own).items():
            rows_by_reason.setdefault(reason, []).append(row)
        for reason, rows in rows_by_reason.items():
            self._refuse(url.take(pa.array(rows)), reason)

    def _refuse(self, url: "pa.Array", reason: str) -> None:
        self.problems[reason] += len(url)
        for text in url[:REASONS_SHOWN_MAX].to_pylist():
            if len(self.examples) < REASONS_SHOWN_MAX:
                self.examples.append(f"{reason}: {str(text)[:80]!r}")


@example_command(
    "add",
    examples=(
        CommandExample("recrawl add urls.txt"),
        CommandExample("recrawl add https://example.com/ https://example.com/news"),
        CommandExample(
            "recrawl add products.csv --column url=link", "the URLs are in the column link"
        ),
        CommandExample(
            "recrawl add products.csv --column url=link --metadata all",
            "keep the other columns as metadata of the pages",
        ),
        CommandExample("recrawl add sitemap.xml --importance 2"),
        CommandExample("cat urls.txt | recrawl add"),
    ),
)
@inputs_argument
@format_option(*LIST_FORMATS)
@column_option
@metadata_option
@key_option
@click.option(
    "--importance",
    type=click.FloatRange(0),
    metavar="X",
    help="Importance of a page, 1 by default, where the file gives none.",
)
@click.option(
    "--cost",
    type=click.FloatRange(0),
    metavar="X",
    help="Cost of a fetch, 1 by default, where the file gives none.",
)
@corpus_or_service_option
@output_option
def command(
    inputs: tuple[str, ...],
    format_name: str | None,
    columns: tuple[str, ...],
    metadata: str | None,
    key: str | None,
    importance: float | None,
    cost: float | None,
    folder: CorpusPlace,
    out: Output,
) -> None:
    """Add pages to track, given as URLs or as files of URLs.

    A file is a list of URLs, CSV, JSON lines, Parquet or a sitemap, compressed or not; without
    arguments recrawl reads stdin.  The field with the URLs may be called url, link, Page URL or
    the like.  Further known fields are importance, cost, last_modified, doc_id (your own name of
    the page) and metadata (a JSON object).

    Pages that are tracked already keep what they have, except a doc_id and metadata, which the
    file replaces.
    """
    pages = split_inputs(inputs)
    with open_to_change(folder, n_bytes_input=pages.n_bytes) as corpus, value_errors_as_usage():
        adder = _PageAdder(corpus, importance, cost, key)
        protection, now_ms = corpus.config.protection, corpus.now_ms()
        n_refused = 0
        if pages.urls:
            adder.add(url_batch(pages.urls))
        for file in pages.files:
            name = file.name
            source = open_input(
                file,
                format_name=format_name,
                columns=columns,
                metadata=metadata_fields(metadata),
                has_keys=has_keys(corpus),
            )
            if source.kind != "listed":
                raise RecrawlError(
                    f"{name} is a log of fetches or changes ({source.format}), not a list of "
                    f"pages.\nRun `recrawl import {name}` to add its pages and learn from it."
                )
            for batch in batches_with_progress(source, file, out):
                adder.add(batch)
            show_refused(source, name, out)
            show_fields(source, name, out)
            show_ignored(source, name, out)
            n_refused += source.refused.n_refused
    n_wrong = sum(adder.problems.values())
    out.row(
        {
            "n_added": adder.n_added,
            "n_known": adder.n_known,
            "n_refused": n_wrong + n_refused,
            "refused_by_reason": dict(adder.problems),
            "n_limited": adder.n_limited,
            "n_unavailable": adder.n_unavailable,
        }
    )
    parts = [f"{count_text(adder.n_added, 'page')} added", f"{adder.n_known:,} tracked already"]
    parts += [f"{n_wrong + n_refused:,} refused"] if n_wrong + n_refused else []
    out.say(", ".join(parts) + ".")
    if adder.n_limited:
        out.note(
            f"{adder.n_limited:,} of these pages are newcomers, because many were added at once: "
            f"for {seconds_text((adder.limited_until_ms - now_ms) / 1000)} at most, those of one "
            f"domain get up to {share_text(protection.new_domain_share)} of the fetches, and all "
            f"newcomers {share_text(protection.new_pages_share)}, while other pages may be stale.  "
            "`recrawl set --host HOST --unlimited` lifts this."
        )
    for text in adder.examples:
        out.note(f"  {text}")
    if n_wrong > len(adder.examples):
        reasons = ", ".join(f"{n:,} {reason}" for reason, n in adder.problems.most_common())
        out.note(f"  … in total: {reasons}")
    check_none_unavailable(
        adder.n_unavailable,
        f"{count_text(adder.n_unavailable, 'page was', 'pages were')} not added",
        "pages that are tracked already stay as they are",
    )
