"""Requests survive the way to JSON and back, or say that they cannot."""

from typing import Any

import pytest
import scrapy
from scrapy.http import FormRequest, JsonRequest

from recrawl.scrapy.request_json import (
    REQUEST_CHARACTERS_MAX,
    NotStorableError,
    decode_request,
    encode_request,
)


class _Spider(scrapy.Spider):
    name = "test"

    def parse_page(self, response: Any) -> None:
        pass

    def fail(self, failure: Any) -> None:
        pass

    def __parse_private(self, response: Any) -> None:
        pass

    @property
    def private_callback(self) -> Any:
        return self.__parse_private


SPIDER = _Spider()
URL = "https://example.com/a?b=c"


@pytest.mark.parametrize(
    "request_",
    [
        scrapy.Request(URL),
        scrapy.Request(URL, SPIDER.parse_page, errback=SPIDER.fail, priority=3, dont_filter=True),
        scrapy.Request(URL, SPIDER.private_callback),
        scrapy.Request(URL, cb_kwargs={"a": (1, [2.5, None]), "b": {"x": {1, 2}}, "c": b"\xff\0"}),
        scrapy.Request(URL, meta={"n": {3: "three"}, "__tuple__": 1, "depth": 4}),
        scrapy.Request(URL, headers={"Accept": "text/html"}, cookies={"a": "b"}),
        scrapy.Request(URL, method="POST", body=b"x=1", encoding="latin-1", flags=["f"]),
        FormRequest(URL, formdata={"a": "b"}),
        JsonRequest(URL, data={"a": [1]}),
    ],
)
def test_a_request_comes_back_equal(request_: scrapy.Request) -> None:
    back = decode_request(encode_request(request_, SPIDER), SPIDER)
    assert type(back) is type(request_)
    assert back.to_dict(spider=SPIDER) == request_.to_dict(spider=SPIDER)


def test_what_belongs_to_one_download_is_left_out() -> None:
    meta: dict[str, Any] = {
        "recrawl": {},
        "recrawl_fetch": 7,
        "redirect_urls": ["x"],
        "retry_times": 1,
        "mine": 2,
    }
    meta["recrawl_enabled"] = False
    back = decode_request(encode_request(scrapy.Request(URL, meta=meta), SPIDER), SPIDER)
    assert back.meta == {"mine": 2, "recrawl_enabled": False}


@pytest.mark.parametrize(
    "request_",
    [
        scrapy.Request(URL, print),
        scrapy.Request(URL, meta={"object": object()}),
        scrapy.Request(URL, meta={"nan": float("nan")}),
        scrapy.Request(URL, cb_kwargs={"text": "x" * REQUEST_CHARACTERS_MAX}),
    ],
)
def test_what_cannot_be_stored_is_refused(request_: scrapy.Request) -> None:
    with pytest.raises(NotStorableError):
        encode_request(request_, SPIDER)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"url":7}',
        '{"url":"https://example.com/","callback":"gone"}',
        '{"url":"https://example.com/","_class":"subprocess.Popen"}',
        '{"url":"https://example.com/","_class":"scrapy.Spider"}',
        '{"url":{"__bytes__":"%%%"}}',
    ],
)
def test_a_damaged_text_is_refused(text: str) -> None:
    with pytest.raises(NotStorableError):
        decode_request(text, SPIDER)
