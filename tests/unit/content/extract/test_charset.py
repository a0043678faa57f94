"""The character set of a body is found, whatever its labels say."""

import encodings.aliases

import pytest

from recrawl.content import observe
from recrawl.content.extract.charset import decode_body


@pytest.mark.parametrize(
    ("body", "content_type", "text", "charset"),
    [
        ("Olá".encode(), None, "Olá", "utf-8"),
        ("Olá".encode(), "text/html; charset=iso-8859-1", "Olá", "utf-8"),
        ("Olá".encode("cp1252"), "text/html; charset=ISO-8859-1", "Olá", "cp1252"),
        (b"<meta charset=latin1>" + "é".encode("cp1252"), None, "<meta charset=latin1>é", "cp1252"),
        ("Привет".encode("cp1251"), 'text/plain; charset="windows-1251"', "Привет", "cp1251"),
        ("\ufeffhi".encode("utf-16-le"), "text/html; charset=utf-8", "hi", "utf-16-le"),
        ("hello you".encode("utf-16-be"), None, "hello you", "utf-16-be"),
        ("日本".encode("iso2022_jp"), "text/html; charset=iso-2022-jp", "日本", "iso2022_jp"),
        (b"plain", "text/html; charset=base64", "plain", "utf-8"),
        ("cut: é".encode() + "é".encode()[:1], None, "cut: é", "utf-8"),
    ],
)
def test_a_body_is_decoded(body: bytes, content_type: str | None, text: str, charset: str) -> None:
    found = decode_body(body, content_type)
    assert (found.text, found.charset) == (text, charset)


@pytest.mark.parametrize("label", sorted({*encodings.aliases.aliases.values(), "zip", "idna"}))
def test_every_label_is_accepted(label: str) -> None:
    body = b"<p>caf\xe9 \xff\xfe</p>"
    assert decode_body(body, f"text/html; charset={label}").text
    assert observe(b"<meta charset=" + label.encode() + b">" + body).passages.size == 1


def test_one_page_in_two_character_sets_has_the_same_passages() -> None:
    text = "<html><p>Grüße aus München</p><p>Größe: 5 €</p></html>"
    pages = [
        observe(text.encode(), "text/html"),
        observe(text.encode("cp1252"), "text/html; charset=windows-1252"),
        observe(text.encode("utf-16"), "text/html"),
    ]
    assert len({tuple(page.passages.tolist()) for page in pages}) == 1
