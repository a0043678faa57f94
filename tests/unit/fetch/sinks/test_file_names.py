"""Files of pages: readable names that never leave the folder and never collide."""

import random
import re
from pathlib import PurePosixPath

import pytest

from recrawl.fetch.sinks.kinds.file_names import PATH_CHARACTERS_MAX, page_path

DEVICES = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.I)


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("https://example.com/", "example.com/index.md"),
        ("https://example.com", "example.com/index.md"),
        ("https://example.com/tea", "example.com/tea.md"),
        ("https://example.com/tea/", "example.com/tea/index.md"),
        ("https://example.com/tea.html", "example.com/tea.html.md"),
        ("http://example.com/tea", "http_example.com/tea.md"),
        ("http://127.0.0.1:8080/a-b/c_d", "http_127.0.0.1_8080/a-b/c_d.md"),
    ],
)
def test_plain_urls_have_plain_paths(url: str, path: str) -> None:
    assert str(page_path(url, None, ".md")) == path


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("https://example.com/", "example.com/index~"),
        ("https://example.com/tea", "example.com/tea~"),
        ("https://example.com/tea.html", "example.com/tea.html"),
        ("https://example.com/a/b.tar.gz", "example.com/a/b.tar.gz"),
    ],
)
def test_raw_files_keep_their_ending(url: str, path: str) -> None:
    assert str(page_path(url, None, None)) == path


def test_other_urls_stay_readable() -> None:
    path = str(page_path("https://example.com/%E8%8C%B6/Tea?page=2", None, ".md"))
    assert re.fullmatch(r"example\.com/茶~[0-9a-f]{16}/tea_page_2~[0-9a-f]{16}\.md", path)


def hard_urls() -> list[str]:
    rng = random.Random(4)
    parts = [
        *("", ".", "..", "a", "A", "a.", ".a", "a ", "con", "CON.txt", "nul", "com1", "aux.md"),
        *("index", "index.html", "tea.md", "tea", "TEA", "tea~", "tea~0123456789abcdef", "~long"),
        *("%2e%2e", "%2F", "%00", "a\\b", "a:b", "a*b", "x" * 100, "x" * 300, "茶", "%E8%8C%B6"),
        *("%e8%8c%b6", "\u00e9", "e\u0301", "ß", "ss", "-", "_", "a|b", "\u202e", "\ud800", "a.b"),
    ]
    hosts = ["example.com", "EXAMPLE.com", "example.com:8080", "a_8080", "a:8080", "[::1]", ""]
    hosts += ["http_example.com", "u@example.com", "x" * 250, "..", "~other", ".recrawl-drafts"]
    urls = set()
    for _ in range(4_000):
        path = "/".join(rng.choices(parts, k=rng.randint(0, 4)))
        query = rng.choice(["", "", "?", "?a=1", "?A=1", "?" + "q" * 300, "?../..", "#x"])
        urls.add(f"{rng.choice(['https', 'http', 'ftp'])}://{rng.choice(hosts)}/{path}{query}")
    urls |= {"", "x", "/", "https://", "https://[", "javascript:1", "https://e.com/" + "a/" * 500}
    return sorted(urls)


@pytest.mark.parametrize("ending", [".md", None])
def test_hard_urls_have_safe_names_that_differ(ending: str | None) -> None:
    folders: set[str] = set()
    files: dict[str, str] = {}
    for url in hard_urls():
        path = page_path(url, None, ending)
        name = str(path) if ending else str(path) + ".html" * path.name.endswith("~")
        assert not path.is_absolute()
        assert len(str(path)) <= PATH_CHARACTERS_MAX
        for part in PurePosixPath(name).parts:
            assert part not in ("", ".", "..")
            assert not part.startswith(".")
            assert not part.endswith((".", " "))
            assert not DEVICES.fullmatch(part)
            assert len(part.encode()) <= 200
            assert not re.search(r'[\x00-\x1f<>:"/\\|?*]', part)
        folded = name.casefold()
        assert folded not in files, (url, files[folded])
        files[folded] = url
        folders |= {str(one).casefold() for one in PurePosixPath(name).parents}
    assert not folders & set(files)


def test_the_same_url_under_two_keys_has_two_files() -> None:
    url = "https://example.com/tea"
    assert str(page_path(url, "de", ".md")) == "de/example.com/tea.md"
    paths = {page_path(url, key, ".md") for key in ("de", "DE", "", "../x", None)}
    assert len(paths) == 5
