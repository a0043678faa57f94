"""Tests that arguments of a wrong type raise errors that say what to pass instead."""

from pathlib import Path
from typing import Any

import pytest

import recrawl
from recrawl.errors import CorpusError


def test_a_configuration_as_a_dictionary_is_a_type_error(tmp_path: Path) -> None:
    config: Any = {"budget": {"rate": "30/h"}}
    with pytest.raises(TypeError, match="config must be a CorpusConfig"):
        recrawl.open(tmp_path, config)


def test_a_file_is_not_a_corpus(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CorpusError, match="is a file, not the folder of a corpus"):
        recrawl.open(tmp_path / "file")


def test_wrong_arguments_of_methods_are_named(tmp_path: Path) -> None:
    url = "https://a.example/"
    outcomes: Any = {"url": url, "status": 200}
    digest: Any = "abc"
    with recrawl.open(tmp_path) as corpus:
        corpus.add([url])
        with pytest.raises(TypeError, match=r"outcomes must be recrawl\.Outcome objects"):
            corpus.report(outcomes)
        with pytest.raises(TypeError, match="digest must be bytes"):
            corpus.report(recrawl.Outcome(url=url, digest=digest))
        with pytest.raises(TypeError, match="has no setting 'maxage'; choose from importance"):
            corpus.set([url], maxage="1d")
        with pytest.raises(ValueError, match="max_age must be a duration"):
            corpus.set([url], max_age="tomorrow")
        with pytest.raises(ValueError, match="delay must be a duration"):
            corpus.set_host("a.example", delay="soon")
        corpus.set_host("a.example", delay="5s")
        page = corpus.explain(url)
        assert page is not None
        assert page.group_view.delay_seconds == 5
