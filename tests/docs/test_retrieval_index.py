"""The guide "Keep a retrieval index fresh" runs as written, with a real PostgreSQL.

The test needs Debian's package postgresql, and fails without it.  PostgreSQL refuses to run as
root; then its commands run as the user nobody, in a folder that belongs to that user.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psycopg
import pytest

import recrawl

pytestmark = [pytest.mark.slow, pytest.mark.slow_without_jit, pytest.mark.timeout(900)]

HOW_TO = Path(__file__).resolve().parents[2] / "docs/how-to"
PAGE = (HOW_TO / "keep-a-retrieval-index-fresh.md").read_text(encoding="utf-8")
# The figures depend on the text that recrawl extracts; their order of magnitude does not.
TOLERANCE = 0.5


def shell_commands() -> list[tuple[str, str]]:
    """Return the commands of the page, each with the output that it shows."""
    found = []
    for block in re.findall(r"^```console\n(.*?)^```$", PAGE, re.M | re.S):
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, _, shown = part.partition("\n")
            found.append((command, shown))
    return found


def run_as_normal_user(script: str, folder: Path) -> None:
    """Run a shell script in a folder, as the user nobody if this user is root."""
    is_root = os.geteuid() == 0
    done = subprocess.run(
        ["bash", "-e", "-c", script],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), "LC_ALL": "C"},
        user="nobody" if is_root else None,
        extra_groups=[] if is_root else None,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, f"install Debian's package postgresql: {done.stderr}"


@pytest.fixture(scope="module")
def database() -> Iterator[Path]:
    """Start PostgreSQL with the commands of the page; return the folder with its socket."""
    # A short path, because that of a socket may have 107 bytes; and not in a folder that only root
    # may enter.
    folder = Path(tempfile.mkdtemp(prefix="recrawl-pg-", dir="/tmp"))
    if os.geteuid() == 0:
        shutil.chown(folder, "nobody")
    commands = [command for command, _ in shell_commands()]
    first = next(i for i, command in enumerate(commands) if command.startswith("PATH="))
    last = next(i for i, command in enumerate(commands) if command.startswith("createdb "))
    try:
        run_as_normal_user("\n".join(commands[first : last + 1]), folder)
        yield folder
    finally:
        stop = re.search(r"`(pg_ctl [^`]* stop)`", PAGE)
        assert stop is not None
        if (folder / "database/postmaster.pid").exists():
            run_as_normal_user(f"{commands[first]}\n{stop[1]}", folder)
        shutil.rmtree(folder)


@pytest.fixture
def index_database(database: Path) -> Path:
    """Return the folder of the database, without tables."""
    with psycopg.connect(f"host={database} user=index dbname=index", autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS passage, feed")
    return database


def run_page_command(command: str, folder: Path, database: Path) -> str:
    """Run a command of the page in a folder; return what it prints."""
    command = command.replace("$PWD", str(database))
    command = re.sub(r"^python (\S+)", rf"{sys.executable} {HOW_TO / 'scripts'}/\1", command)
    command = re.sub(r"^recrawl ", f"{sys.executable} -m recrawl ", command)
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_simulated_week_needs_as_few_embeddings_as_the_page_says(
    index_database: Path, tmp_path: Path
) -> None:
    ((command, shown),) = [row for row in shell_commands() if "index_week.py" in row[0]]
    (tmp_path / "week").mkdir()
    printed = run_page_command(command, tmp_path, index_database)
    number = r"\d+"
    assert re.sub(number, "", printed).split() == re.sub(number, "", shown).split()
    figures, on_page = (list(map(int, re.findall(number, text))) for text in (printed, shown))
    assert figures == pytest.approx(on_page, rel=TOLERANCE)
    first, new, whole, nightly = figures[-4:]
    assert new < 0.5 * whole < 0.5 * nightly
    with psycopg.connect(f"host={index_database} user=index dbname=index") as connection:
        row = connection.execute("SELECT count(*), count(DISTINCT url) FROM passage").fetchone()
    assert row is not None
    assert first < row[0] + new
    assert 80 <= row[1] <= 96


class Site:
    """A site with two pages whose paragraphs the test sets."""

    def __init__(self) -> None:
        self.paragraphs = {
            f"/{name}": [f"Paragraph {i} of the page about {name}." for i in range(6)]
            for name in ("apples", "pears")
        }
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                paragraphs = site.paragraphs.get(self.path)
                text = "".join(f"<p>{one}</p>" for one in paragraphs or ())
                body = f"<html><body><main>{text}</main></body></html>".encode()
                self.send_response(200 if paragraphs else 404)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever)

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}{path}"


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    site.thread.start()
    yield site
    site.server.shutdown()
    site.thread.join()
    site.server.server_close()


def test_the_script_embeds_only_what_is_new(
    site: Site, index_database: Path, tmp_path: Path
) -> None:
    """The budget is two fetches instead of 500, so that the run fetches both pages once."""
    toml = re.search(r"^```toml\n(.*?)^```$", PAGE, re.M | re.S)
    assert toml is not None
    assert '"500/run"' in toml[1]
    settings = toml[1].replace('"500/run"', '"2/run"') + '[politeness]\ndelay = "0s"\n'
    urls = [site.url(path) for path in site.paragraphs]
    (tmp_path / "urls.txt").write_text("\n".join(urls))
    ((update, _),) = [row for row in shell_commands() if "fresh_index.py" in row[0]]
    init, add = (row[0] for row in shell_commands() if row[0].startswith("recrawl "))
    run_page_command(init, tmp_path, index_database)
    (tmp_path / "corpus/recrawl.toml").write_text(settings)
    run_page_command(add, tmp_path, index_database)

    def run_script() -> str:
        return run_page_command(f"{update} monday", tmp_path, index_database)

    assert run_script() == "12 passages embedded, 0 deleted\n"
    # The budget of the run is spent, so the next ones only read what is reported here.
    site.paragraphs["/apples"][2] = "Another text about cider and cellars."
    body = "".join(f"<p>{one}</p>" for one in site.paragraphs["/apples"])
    body = f"<html><body><main>{body}</main></body></html>"
    report(tmp_path, recrawl.Outcome(url=urls[0], body=body.encode(), content_type="text/html"))
    assert run_script() == "1 passages embedded, 1 deleted\n"
    report(tmp_path, recrawl.Outcome(url=urls[1], status=404))
    assert run_script() == "0 passages embedded, 6 deleted\n"
    with psycopg.connect(f"host={index_database} user=index dbname=index") as connection:
        rows = connection.execute("SELECT url, text FROM passage ORDER BY text").fetchall()
    assert {url for url, _ in rows} == {urls[0]}
    assert rows[0][1] == "Another text about cider and cellars."
    assert len(rows) == 6


def report(folder: Path, outcome: recrawl.Outcome) -> None:
    """Report a fetch to the corpus, in a later second than the one before, so that it counts."""
    time.sleep(1.1)
    with recrawl.open(folder / "corpus") as corpus:
        assert corpus.report(outcome).counted.all()
