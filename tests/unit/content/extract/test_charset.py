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


@pytest.mark.parametrize(
    ("body", "content_type", "text", "charset"),
    [
        (
            b"<meta charset=windows-1251>" + "Привет всем".encode("cp1251"),
            "text/html; charset=utf-8",
            "<meta charset=windows-1251>Привет всем",
            "cp1251",
        ),
        # One bad byte among valid signs: the label is right.
        ("Größe ".encode() + b"\xff Gr", "text/html; charset=utf-8", "Größe \ufffd Gr", "utf-8"),
    ],
)
def test_a_label_is_not_believed_if_the_bytes_disprove_it(
    body: bytes, content_type: str, text: str, charset: str
) -> None:
    found = decode_body(body, content_type)
    assert (found.text, found.charset) == (text, charset)


def test_a_body_whose_only_label_is_wrong_is_detected() -> None:
    body = "Всем привет: это обычный русский текст.".encode("cp1251")
    assert decode_body(body, "text/html; charset=utf-8").charset != "utf-8"


@pytest.mark.parametrize(
    "text",
    ["Où est l’été ?", "目次 – 東京", "Ещё одна статья", "שלום", "5 € or £ 4", "a “quote” and …"],
)
@pytest.mark.parametrize("charset", ["latin-1", "cp1252"])
def test_a_text_that_was_encoded_twice_is_read_as_it_was_meant(text: str, charset: str) -> None:
    twice = _read_as(text.encode(), charset).encode()
    assert decode_body(twice, "text/plain; charset=utf-8") == (text, "utf-8", False)
    # An answer may end inside a sign.
    cut = decode_body(twice + _read_as("é".encode(), charset).encode()[:2])
    assert cut.text == text


def _read_as(data: bytes, charset: str) -> str:
    """Return how a server reads bytes that are not in a character set."""
    if charset == "latin-1":
        return data.decode(charset)
    signs = (bytes([one]).decode(charset, "replace") for one in data)
    return "".join(
        chr(one) if sign == "\ufffd" else sign for one, sign in zip(data, signs, strict=True)
    )


@pytest.mark.parametrize(
    "text", ["MAÇÃ", "A AVÓ E A IRMÃ…", "«IRMÃ»", "Ã", "naïve café", "…", "Â\u2019 only", "x\x80"]
)
def test_a_text_that_was_encoded_once_is_left_alone(text: str) -> None:
    assert decode_body(text.encode()).text == text


@pytest.mark.parametrize(
    ("form", "content_type"),
    [
        ("<html><p>{}</p></html>", "text/html"),
        ("{}", "text/plain"),
        ('{{"title": "{}"}}', "application/json"),
        ("<feed><entry><title>{}</title></entry></feed>", "application/atom+xml"),
        ("<rss><channel><item><title>{}</title></item></channel></rss>", "application/rss+xml"),
    ],
)
def test_every_kind_of_page_is_read_as_it_was_meant(form: str, content_type: str) -> None:
    once = form.format("Ещё «одна» статья – l’été").encode()
    passages = observe(once, content_type).passages.tolist()
    for charset in ("latin-1", "cp1252"):
        twice = _read_as(once, charset).encode()
        assert observe(twice, f"{content_type}; charset=utf-8").passages.tolist() == passages
    assert observe(once, f"{content_type}; charset=windows-1251").passages.tolist() == passages


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
