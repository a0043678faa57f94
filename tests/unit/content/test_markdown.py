"""Bodies as Markdown: what a reader needs stays, and no page breaks it."""

import random

import pytest

from recrawl.content import render_markdown
from recrawl.content.extract.markdown_blocks import MARKDOWN_CHARACTERS_MAX

URL = "https://example.com/shop/tea"


def markdown(html: str) -> str:
    return render_markdown(html.encode(), "text/html", URL).rstrip("\n")


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("<h2>Big <em>tea</em></h2>", "## Big *tea*"),
        ("<p>Green\n  tea <b>now</b>.</p><p>More.", "Green tea **now**.\n\nMore."),
        ("<p>a<br>b", "a  \nb"),
        ("<a href='/x y'>tea</a>", "[tea](https://example.com/x%20y)"),
        ("<a href=green>tea</a>", "[tea](https://example.com/shop/green)"),
        ("<a href='javascript:alert(1)'>tea</a>", "tea"),
        ("<a href='#top'>up</a> <a href='http://['>odd</a>", "up odd"),
        ("<a href=/x><div>Card</div><h3>Title</h3></a>", "Card\n\n### Title"),
        ("<img src=/a.png alt='A cup'>", "![A cup](https://example.com/a.png)"),
        ("<img src='data:image/png;base64,xx' alt=Cup><img src=/b.png>", "Cup"),
        ("<ul><li>One<li>Two<ul><li>In</ul></ul>", "- One\n- Two\n  - In"),
        ("<ol><li>One<li><p>a<p>b</ol>", "1. One\n2. a\n\n   b"),
        ("<blockquote>Tea<p>more</blockquote>", "> Tea\n>\n> more"),
        ("<pre>a\n  b</pre>", "```\na\n  b\n```"),
        ("<pre>a ``` b</pre>", "````\na ``` b\n````"),
        ("<p>Use <code>a`b</code>", "Use ``a`b``"),
        (
            "<table><tr><th>A<th>B<tr><td>1<td>2|3<tr><td>4</table>",
            "| A | B |\n| --- | --- |\n| 1 | 2\\|3 |\n| 4 |  |",
        ),
        ("<table><tr><td><p>a</p><td><p>b</p></table>", "a\n\nb"),
        ("a<hr>b", "a\n\n---\n\nb"),
        ("<p># tea<p>- tea<p>1. tea<p>> tea", "\\# tea\n\n\\- tea\n\n1\\. tea\n\n\\> tea"),
        ("<p>*a* [b] `c` &lt;d> \\ e_f _g_", "\\*a\\* \\[b\\] \\`c\\` \\<d> \\\\ e_f \\_g\\_"),
        ("<p>a<script>x</script><style>y</style><button>z</button>b", "ab"),
        ("<p hidden>a</p><p aria-hidden=true>b</p><p>c", "c"),
    ],
)
def test_elements(html: str, expected: str) -> None:
    assert markdown(html) == expected


def test_menus_are_left_out_where_the_page_marks_them() -> None:
    text = "<p>" + "Tea is a drink. " * 20
    beside = "<nav>Menu</nav><footer>Imprint</footer><aside>Ads</aside><header>Logo</header>"
    assert markdown(beside + text) == ("Tea is a drink. " * 20).strip()
    article = f"<header>Logo</header><main><header><h1>Tea</h1></header>{text}</main>"
    assert markdown(article).startswith("# Tea\n\nTea is")
    assert "Logo" not in markdown(article)


def test_a_page_that_is_only_a_menu_stays() -> None:
    assert markdown("<nav><a href=/a>First</a> <a href=/b>Second</a></nav>") == (
        "[First](https://example.com/a) [Second](https://example.com/b)"
    )


def test_other_kinds() -> None:
    assert render_markdown(b'{"a": 1}', "application/json") == '```json\n{"a": 1}\n```\n'
    assert render_markdown(b"a\r\nb\0", "text/plain") == "a\nb\n"
    assert render_markdown(b"\x89PNG", "image/png") == ""
    assert render_markdown(b"", "text/html") == ""
    assert render_markdown("Käse".encode("latin-1"), "text/plain; charset=latin-1") == "Käse\n"


def test_a_page_beyond_the_limits_of_the_parser_has_its_text() -> None:
    assert "tea" in markdown("<b><div>" * 200 + "<p>tea")


@pytest.mark.parametrize(
    "html",
    [
        "<a href=/" + "l" * 1_500 + ">x</a>",
        "<blockquote>" * 100 + "<p>x</p>" * 500,
        "<ul><li>" * 70 + "<p>x</p>" * 500,
        "<b><i>" * 70 + "<p>y" * 500,
        "<table><tr><td>" * 25 + "x<p>y" * 300,
    ],
)
def test_the_size_is_limited(html: str) -> None:
    found = render_markdown((html * 3).encode(), "text/html", URL + "/a" * 1_000)
    assert 0 < len(found) <= MARKDOWN_CHARACTERS_MAX + 1
    assert len(found) < 50 * len(html) + 10_000


def test_mutated_pages_never_raise() -> None:
    rng = random.Random(6)
    pieces = ["<p>", "</p>", "<table>", "<tr>", "<td>", "<ul>", "<li>", "<a href='", "'>", "<pre>"]
    pieces += ["tea", "\0", "\ud7ff", "<br>", "<h1>", "</a>", "<code>", "`", "<main>", "<nav>", "|"]
    pieces += ["<body>", "</body>", "<html>", "<svg>", "<template>", "<select>", "<blockquote>"]
    for _ in range(300):
        html = "".join(rng.choices(pieces, k=rng.randint(1, 60)))
        found = render_markdown(html.encode(), "text/html", URL)
        assert "\0" not in found
        assert not found or found.endswith("\n")
