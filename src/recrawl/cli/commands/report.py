"""``recrawl report``: read what fetches found, as JSON lines, and report it to the corpus."""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from recrawl.cli.support.corpora import checked_arguments, corpus_option, open_to_change, prepare
from recrawl.cli.support.examples import Example, example_command
from recrawl.cli.support.outcomes import BadOutcome, lines_of, outcome_of
from recrawl.cli.support.presenting import Output, output_option
from recrawl.units import count_text

if TYPE_CHECKING:
    from recrawl.corpus import Corpus, Outcome

__all__ = ["command"]

OUTCOMES_PER_BATCH_MAX = 1_000
_EXAMPLES_MAX = 5


class _Reporting:
    """Outcomes that are being reported, and what became of them."""

    def __init__(self) -> None:
        self.n_lines = self.n_counted = self.n_void = self.n_bad = 0
        self.transitions: Counter[str] = Counter()
        self.examples: list[str] = []

    def read(self, lines: list[bytes]) -> "list[Outcome]":
        """Return the outcomes of lines; bad ones are counted."""
        found = []
        for line in lines:
            self.n_lines += 1
            try:
                found.append(outcome_of(line))
            except BadOutcome as error:
                self.n_bad += 1
                if len(self.examples) < _EXAMPLES_MAX:
                    self.examples.append(f"line {self.n_lines}: {error}")
        return found

    def report(self, corpus: "Corpus", outcomes: "list[Outcome]") -> None:
        """Tell the corpus."""
        from recrawl.shard import Transition  # noqa: PLC0415

        with checked_arguments():
            reported = corpus.report(outcomes)
        n_counted = int(reported.counted.sum())
        self.n_counted += n_counted
        self.n_void += len(outcomes) - n_counted
        for number in reported.transition[reported.counted].tolist():
            self.transitions[Transition(number).name.lower()] += 1

    def row(self) -> dict[str, Any]:
        """Return what became of them, as a program wants it."""
        from recrawl.shard import Transition  # noqa: PLC0415

        told = {"n_lines": self.n_lines, "n_counted": self.n_counted, "n_void": self.n_void}
        told |= {"n_bad": self.n_bad}
        names = [t.name.lower() for t in Transition if t is not Transition.NONE]
        return told | {f"n_{name}": self.transitions[name] for name in names}

    def words(self) -> str:
        """Return the same in words."""
        parts = [f"{count_text(self.n_counted, 'outcome')} counted"]
        changes = [f"{n:,} {name}" for name, n in self.transitions.items() if name != "none"]
        parts[0] += f" ({', '.join(changes)})" if changes else ""
        if self.n_void:
            parts.append(f"{self.n_void:,} void (reported before, or of no page that is kept)")
        if self.n_bad:
            parts.append(f"{count_text(self.n_bad, 'bad line')}")
        return ", ".join(parts) + "."


@example_command(
    "report",
    examples=(
        Example("recrawl lease 100 | python fetch.py | recrawl report"),
        Example("recrawl report outcomes.jsonl"),
    ),
)
@click.argument("file", type=click.File("rb"), default="-")
@corpus_option
@output_option
def command(file: Any, folder: Path, out: Output) -> None:
    """Say what fetches found: JSON lines from FILE or stdin.

    A line has a handle (or the url of a page), a status (0: no answer), and for content a
    digest, a body, or a body_path whose file is read; or changed: true or false.  It may have
    etag, last_modified, fetched_at_ms, retry_after_seconds, moved_to, disallowed, divergence.
    Other keys are left alone, so an order with these added is a good line.
    """
    reporting = _Reporting()
    with ExitStack() as stack:
        corpus: Corpus | None = None
        for lines in lines_of(file):
            if corpus is None:
                # What is there at first says how much to expect.
                prepare(folder, n_bytes_input=sum(map(len, lines)))
            for batch in _batches(lines):
                outcomes = reporting.read(batch)
                if not outcomes:
                    continue
                corpus = corpus or stack.enter_context(open_to_change(folder))
                reporting.report(corpus, outcomes)
    out.row(reporting.row())
    out.say(reporting.words() if reporting.n_lines else "No outcomes were given.")
    for text in reporting.examples:
        out.note(f"  {text}")
    if reporting.n_bad and reporting.n_bad == reporting.n_lines:
        raise click.ClickException("no line was an outcome.\n`recrawl report --help` says more.")


def _batches(lines: list[bytes]) -> Iterator[list[bytes]]:
    for i in range(0, len(lines), OUTCOMES_PER_BATCH_MAX):
        yield lines[i : i + OUTCOMES_PER_BATCH_MAX]
