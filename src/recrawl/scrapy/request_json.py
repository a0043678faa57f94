"""Requests as JSON, so that they can be issued again in a later crawl.

Requests are not pickled: a file of pickled objects runs whatever somebody wrote into it.
"""

import base64
import json
import sys
from typing import TYPE_CHECKING, Any, Final

from scrapy import Request
from scrapy.utils.request import request_from_dict

if TYPE_CHECKING:
    from scrapy import Spider

__all__ = ["REQUEST_CHARACTERS_MAX", "NotStorableError", "decode_request", "encode_request"]

REQUEST_CHARACTERS_MAX: Final = 64 << 10
"""Length of the JSON of a request beyond which it is not stored."""

# Keys under which a value that JSON does not have is stored.
_BYTES: Final = "__bytes__"
_TUPLE: Final = "__tuple__"
_SET: Final = "__set__"
_PAIRS: Final = "__pairs__"
_TAGS: Final = frozenset({_BYTES, _TUPLE, _SET, _PAIRS})
# Entries of `Request.meta` that belong to one download, not to the request.
_PASSING: Final = frozenset(
    {
        "_auth_proxy",
        "cached_timestamp",
        "download_latency",
        "recrawl",
        "recrawl_dropped",
        "recrawl_fetch",
        "redirect_reasons",
        "redirect_times",
        "redirect_ttl",
        "redirect_urls",
        "retry_times",
    }
)
# Fields that a plain request leaves empty.
_EMPTY: Final[tuple[Any, ...]] = (None, {}, [], (), b"", "", False, 0)


class NotStorableError(Exception):
    """A request has a part that cannot be stored, such as a callback that is no method."""


def encode_request(request: Request, spider: "Spider") -> str:
    """Return a request as JSON.

    Parameters
    ----------
    request
        Request, whose callbacks must be methods of the spider.
    spider
        Spider of the crawl.

    Raises
    ------
    NotStorableError
        If it has a callback that is no method of the spider, or a value that is not made of plain
        Python values.
    """
    fields = _fields_of(request, spider)
    fields["meta"] = {
        key: value for key, value in fields.get("meta", {}).items() if key not in _PASSING
    }
    plain = {key: value for key, value in fields.items() if key == "url" or value not in _EMPTY}
    if plain.get("method") == "GET":
        del plain["method"]
    if plain.get("encoding") == "utf-8":
        del plain["encoding"]
    try:
        text = json.dumps(_to_json(plain), separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise NotStorableError(f"{request}: {error}") from None
    if len(text) > REQUEST_CHARACTERS_MAX:
        raise NotStorableError(f"{request}: longer than {REQUEST_CHARACTERS_MAX:,} characters")
    return text


def _fields_of(request: Request, spider: "Spider") -> dict[str, Any]:
    """Return the fields of a request, callbacks by name, as ``Request.to_dict`` does.

    That method looks at all members of the spider for each request, which takes longer than
    everything else here.
    """
    names = {one: _method_name(getattr(request, one), spider) for one in ("callback", "errback")}
    if type(request) is Request and None not in names.values():
        plain = (one for one in Request.attributes if one not in names)
        fields = names | {one: getattr(request, one) for one in plain}
        return fields | {"headers": dict(request.headers)}
    try:
        return request.to_dict(spider=spider)
    except ValueError as error:
        raise NotStorableError(f"{request}: {error}") from None


def _method_name(method: Any, spider: "Spider") -> str | None:
    """Return the name of a method of the spider, "" for no method, None if it may be another."""
    if method is None:
        return ""
    name = getattr(method, "__name__", "")
    is_own = getattr(method, "__self__", None) is spider and getattr(spider, name, None) == method
    return name if is_own else None


def decode_request(text: str, spider: "Spider") -> Request:
    """Return the request that a JSON text describes.

    Parameters
    ----------
    text
        Text of `encode_request`.
    spider
        Spider of the crawl, which has the callbacks.

    Raises
    ------
    NotStorableError
        If the text is damaged, or the spider no longer has the callback.
    """
    try:
        fields = _from_json(json.loads(text))
        _check_class(fields)
        for name in ("callback", "errback"):
            if fields.get(name) and not callable(getattr(spider, str(fields[name]), None)):
                raise ValueError(f"the spider has no method {fields[name]!r}")
        return request_from_dict(fields, spider=spider)
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        raise NotStorableError(f"a stored request cannot be read: {error}") from None


def _check_class(fields: dict[str, Any]) -> None:
    """Reject the name of anything but a class of requests that the program has loaded itself."""
    if "_class" not in fields:
        return
    module, _, name = str(fields["_class"]).rpartition(".")
    found = getattr(sys.modules.get(module), name, None)
    if not (isinstance(found, type) and issubclass(found, Request)):
        raise ValueError(f"{fields['_class']} is not a class of requests")


def _to_json(value: Any) -> Any:
    if value is None or type(value) in (bool, int, float):
        return value
    if isinstance(value, str):
        # A subclass of str, such as an enumeration, would come back as plain text.
        if type(value) is not str:
            raise TypeError(f"{type(value).__name__} cannot be stored")
        return value
    if type(value) is bytes:
        return {_BYTES: base64.b64encode(value).decode()}
    if type(value) is list:
        return [_to_json(one) for one in value]
    if type(value) is tuple:
        return {_TUPLE: [_to_json(one) for one in value]}
    if type(value) in (set, frozenset):
        return {_SET: sorted((_to_json(one) for one in value), key=repr)}
    if isinstance(value, dict):
        if all(type(key) is str for key in value) and not _TAGS & value.keys():
            return {key: _to_json(one) for key, one in value.items()}
        return {_PAIRS: [[_to_json(key), _to_json(one)] for key, one in value.items()]}
    raise TypeError(f"{type(value).__name__} cannot be stored")


def _from_json(value: Any) -> Any:
    if isinstance(value, list):
        return [_from_json(one) for one in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        (tag, inner), *_ = value.items()
        if tag == _BYTES:
            return base64.b64decode(inner)
        if tag == _TUPLE:
            return tuple(_from_json(one) for one in inner)
        if tag == _SET:
            return {_from_json(one) for one in inner}
        if tag == _PAIRS:
            return {_from_json(key): _from_json(one) for key, one in inner}
    return {key: _from_json(one) for key, one in value.items()}
