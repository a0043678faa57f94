"""Write the section "The path of a page" of ARCHITECTURE.md: the files that a call passes through.

A small corpus is opened with interpreted kernels, each call is made once so that everything is
loaded, and then once more under a profiler that notes every file of the package in which a
function begins.

``python -m scripts.call_paths`` writes the section.  With ``--check`` it writes nothing and says
whether the section is out of date; with ``--print`` it prints the files in order of first use.
"""

import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import recrawl
from recrawl.kernel_mode import use_kernels
from scripts.written_pages import ROOT, stale_pages, write_or_check

__all__ = ["CALLS", "call_paths", "main", "page_text"]

PACKAGE = Path(recrawl.__file__).parent
PAGE = ROOT / "ARCHITECTURE.md"
BEGIN = "<!-- Written by scripts/call_paths.py: begin -->\n"
END = "<!-- Written by scripts/call_paths.py: end -->\n"
CALLS = ("add", "lease", "report", "signal", "explain")


class _StillClock:
    """A clock that stands still, so that every run takes the same path."""

    def wall_ms(self) -> int:
        return 1_700_000_000_000

    def running_ms(self) -> int:
        return 0

    def sleep(self, seconds: float) -> None:
        raise AssertionError(f"a call waits for {seconds} s; none should")


@contextmanager
def _profiled_files(files: list[str]) -> Iterator[None]:
    """Append each file of the package to ``files`` when one of its functions is first called."""
    seen: set[str] = set()

    def note(frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        # Modules that are imported late are executed too; that is no call.
        if event != "call" or code.co_name == "<module>" or code.co_filename in seen:
            return
        seen.add(code.co_filename)
        path = Path(code.co_filename)
        if path.is_relative_to(PACKAGE):
            files.append(path.relative_to(PACKAGE).as_posix())

    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)


def call_paths() -> dict[str, list[str]]:
    """Return the files that each call passes through, in order of first use."""
    if use_kernels("interpreted") != "interpreted":
        raise RuntimeError("compiled kernels cannot be profiled: unset RECRAWL_KERNELS")
    paths: dict[str, list[str]] = {}
    clock = _StillClock()
    with tempfile.TemporaryDirectory() as folder, recrawl.open(folder, clock=clock) as corpus:
        corpus.add([f"https://{i}.example/" for i in range(8)])
        first, second = corpus.lease(4), corpus.lease(2)
        corpus.report([recrawl.Outcome(handle=order.handle, digest=b"1") for order in first])
        corpus.signal([first[0].url], source="sitemap")
        corpus.explain(first[0].url)
        outcome = recrawl.Outcome(handle=second[0].handle, digest=b"1")
        calls: dict[str, Callable[[], object]] = {
            "add": lambda: corpus.add(["https://new.example/"]),
            "lease": lambda: corpus.lease(1),
            "report": lambda: corpus.report(outcome),
            "signal": lambda: corpus.signal([first[1].url], source="sitemap"),
            "explain": lambda: corpus.explain(first[0].url),
        }
        for name in CALLS:
            paths[name] = []
            with _profiled_files(paths[name]):
                calls[name]()
    return paths


def _section(paths: dict[str, list[str]]) -> str:
    """Return a block of text: consecutive files of one package share a step."""
    lines = []
    for name, files in paths.items():
        steps: list[tuple[str, list[str]]] = []
        for file in files:
            package, _, module = file.rpartition("/")
            if not steps or steps[-1][0] != package:
                steps.append((package, []))
            steps[-1][1].append(module.removesuffix(".py"))
        texts = [f"{package}: {', '.join(modules)}" for package, modules in steps]
        lines += [f"{name} ({len(files)} files)", *(f"  {text}" for text in texts), ""]
    return "\n".join(["```text", *lines[:-1], "```"]) + "\n"


def page_text(paths: dict[str, list[str]]) -> str:
    """Return ARCHITECTURE.md with these paths in it."""
    before, begin, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{PAGE.name} lacks the line {BEGIN.strip()} or {END.strip()}")
    return f"{before}{begin}\n{_section(paths)}\n{end}{after}"


def main(arguments: list[str] | None = None) -> int:
    """Write the section, check it or print the files; return the exit status."""
    paths = call_paths()
    if "--print" in (sys.argv[1:] if arguments is None else arguments):
        for name, files in paths.items():
            print(f"{name}: {len(files)} files", *files, sep="\n  ")
        return 0
    texts = {PAGE: page_text(paths)}
    return write_or_check(texts, lambda: stale_pages(texts, "scripts.call_paths"), arguments)


if __name__ == "__main__":
    sys.exit(main())
