"""Strings as kernels see them: broken ones, and batches that are too large."""

import importlib
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from recrawl.urls import _arrow_text as _text
from recrawl.urls._arrow_text import string_array, strings_at, text_of

# The package has a function of that name.
canonical_module: Any = importlib.import_module("recrawl.urls.canonical")


def test_a_lone_surrogate_is_null_and_others_stay() -> None:
    strings = string_array(["a", "\ud800", None, "é", "\udcff"])
    assert strings.to_pylist() == ["a", None, None, "é", None]


def test_spans_become_strings_again() -> None:
    text = text_of(pa.array(["abc", "", "défg"])[1:])
    start = np.array([3, 3, 4], np.int32)
    end = np.array([4, 6, 6], np.int32)
    strings = strings_at(text.data, start, end, np.array([True, False, True]))
    strings.validate(full=True)
    assert strings.to_pylist() == ["d", None, "é"]


def test_a_batch_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_text, "BATCH_BYTES_MAX", 40)
    with pytest.raises(ValueError, match="within 2 GiB"):
        string_array(pa.chunked_array([["a" * 30], ["b" * 30]]))


def test_the_limit_holds_for_the_canonical_urls_of_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(canonical_module, "BATCH_BYTES_MAX", 40)
    with pytest.raises(ValueError, match="within 2 GiB"):
        canonical_module.canonical(["https://a/" + "é" * 10])


def test_arrays_that_are_not_strings_raise() -> None:
    with pytest.raises(TypeError, match="binary"):
        string_array(pa.array([b"\xff"]))
