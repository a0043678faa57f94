"""Make sinks from settings, as a configuration file or a command line gives them."""

import inspect
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from recrawl.errors import ConfigError
from recrawl.fetch.sinks.contract import BatchSettings, Sink

__all__ = ["SINK_KINDS", "open_sink", "parse_sink"]

SINK_KINDS = {
    "folder": ("recrawl.fetch.sinks.kinds.folder", "FolderSink"),
    "json-lines": ("recrawl.fetch.sinks.kinds.json_lines", "JsonLinesSink"),
    "warc": ("recrawl.fetch.sinks.kinds.warc", "WarcSink"),
    "parquet": ("recrawl.fetch.sinks.kinds.parquet", "ParquetSink"),
    "postgres": ("recrawl.fetch.sinks.kinds.postgres", "PostgresSink"),
    "webhook": ("recrawl.fetch.sinks.kinds.webhook", "WebhookSink"),
    "kafka": ("recrawl.fetch.sinks.kinds.kafka", "KafkaSink"),
    "python": ("recrawl.fetch.sinks.kinds.callables", "CallableSink"),
}
"""Kinds of sinks, each with its module and class; loaded when one is opened."""

# Settings of tests and programs, which no file can hold.
_NOT_SETTINGS = frozenset(("now", "now_seconds", "batch"))
_BATCH_SETTINGS = tuple(inspect.signature(BatchSettings).parameters)


def open_sink(kind: str, settings: Mapping[str, Any]) -> Sink:
    """Return a sink of a kind.

    Parameters
    ----------
    kind
        Kind of sink, one of `SINK_KINDS`.
    settings
        Parameters of its class, and those of `BatchSettings`.  ``function`` of the kind
        ``"python"`` may be a text: ``"module:function"``.

    Raises
    ------
    ConfigError
        If the kind or a setting is not known, or a setting has a wrong value.
    SinkError
        If the sink cannot be opened now.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> sink = open_sink("folder", {"folder": folder.name, "name": "pages", "versions_max": 10})
    >>> sink.name, sink.batch.versions_max
    ('pages', 10)
    >>> folder.cleanup()
    """
    if kind not in SINK_KINDS:
        raise ConfigError(f"unknown kind of sink {kind!r}; there are {', '.join(SINK_KINDS)}")
    module, class_name = SINK_KINDS[kind]
    made = getattr(import_module(module), class_name)
    known = [name for name in inspect.signature(made).parameters if name not in _NOT_SETTINGS]
    given = dict(settings)
    batch = {name: given.pop(name) for name in _BATCH_SETTINGS if name in given}
    if unknown := sorted(set(given) - set(known)):
        allowed = ", ".join([*known, *_BATCH_SETTINGS])
        raise ConfigError(f"sink {kind!r} has no setting {unknown[0]!r}; it has {allowed}")
    try:
        if isinstance(given.get("function"), str):
            given["function"] = _load_function(given["function"])
        if batch:
            default = inspect.signature(made).parameters["batch"].default
            own = {name: getattr(default, name) for name in _BATCH_SETTINGS}
            given["batch"] = BatchSettings(**(own | batch))
        sink: Sink = made(**given)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"sink {kind!r}: {error}") from error
    return sink


def parse_sink(text: str) -> tuple[str, dict[str, Any]]:
    """Return the kind and the settings of a sink that a short text names.

    Parameters
    ----------
    text
        Kind, colon, and the first parameter of the kind: ``folder:pages``, ``warc:archive``,
        ``webhook:https://example.com/hook``, ``kafka:host:9092/topic``.

    Raises
    ------
    ConfigError
        If the text does not name a sink.

    Examples
    --------
    >>> parse_sink("folder:pages")
    ('folder', {'folder': 'pages'})
    >>> parse_sink("kafka:localhost:9092/pages")
    ('kafka', {'bootstrap': 'localhost:9092', 'topic': 'pages'})
    """
    kind, _, rest = text.partition(":")
    if kind not in SINK_KINDS or not rest:
        kinds = ", ".join(SINK_KINDS)
        raise ConfigError(f"a sink is KIND:TARGET such as folder:pages, with {kinds}; got {text!r}")
    if kind == "kafka":
        bootstrap, slash, topic = rest.rpartition("/")
        if not slash or not bootstrap or not topic:
            raise ConfigError(f"a sink on Kafka is kafka:HOST:PORT/TOPIC, got {text!r}")
        return kind, {"bootstrap": bootstrap, "topic": topic}
    first = {"postgres": "connection", "webhook": "url", "python": "function"}
    return kind, {first.get(kind, "folder"): rest}


def _load_function(text: str) -> Any:
    module, colon, name = text.partition(":")
    if not colon:
        raise ValueError(f"function must be 'module:function', got {text!r}")
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"function {text!r} cannot be loaded: {error}") from error
