"""Say once that brokers cannot be reached, and once that they can again.

Every client logs every attempt to connect to every broker: with all brokers away for half a minute,
the clients of a worker log thousands of lines.  What they log goes through here: failed connections
are counted per broker, and announced together, once; the rest passes, each text once a minute.
"""

import logging
import re
import socket
import threading
import time
from collections.abc import Callable, Collection
from typing import Final
from weakref import WeakSet

__all__ = ["BrokerWatch", "ClientLog", "accepts_connections"]

_STEP_SECONDS: Final = 1.0
_CONNECT_SECONDS_MAX: Final = 2.0
_REPEAT_SECONDS: Final = 60.0
_TEXTS_MAX: Final = 100
_BROKERS_MAX: Final = 100
# "[thrd:10.1.0.7:9092/1]: 10.1.0.7:9092/1: Connect to ipv4#10.1.0.7:9092 failed: Connection refused
# (after 0ms in state CONNECT, 2 identical error(s) suppressed)"
_THREAD: Final = re.compile(r"^\[thrd:[^\]]*\]: ")
_IN_STATE: Final = re.compile(r" \(after \d+ms in state .*\)$")
_BROKER: Final = re.compile(r"(?:[a-z_]+://)?(?P<address>\S+:\d+)/\S+: (?P<problem>.*)", re.DOTALL)
_REASON: Final = re.compile(r"Connect to \S+ failed: (.*)", re.DOTALL)
# A wrong password or certificate does not pass by itself, whatever the client calls it.
_OF_SETTINGS: Final = re.compile(r"sasl|ssl|tls|authenti|authori|certificate|security", re.I)
# Requests that the client repeats by itself, until they succeed or time out.
_REPEATED: Final = frozenset({"GETPID", "REQTMOUT"})


class ClientLog:
    """The logger of some clients, which hold it: as long as it is there, they are.

    Parameters
    ----------
    watch
        Where their lines go.
    """

    def __init__(self, watch: "BrokerWatch") -> None:
        self._watch = watch

    def log(self, level: int, text: str, *args: object) -> None:
        """Take a line of a client; clients call this like `logging.Logger.log`."""
        self._watch.log(level, text, *args)


class BrokerWatch:
    """What the loggers of all Kafka clients of a process do with their lines.

    Parameters
    ----------
    logger
        Where its lines go.
    can_connect
        Function that returns whether a broker accepts a connection, by its ``host:port``.
    monotonic
        Clock that never jumps, in seconds.
    is_stepped
        Whether the caller calls `step`, instead of a thread.
    """

    def __init__(
        self,
        logger: logging.Logger,
        can_connect: Callable[[str], bool] | None = None,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        is_stepped: bool = False,
    ) -> None:
        self._logger = logger
        self._can_connect = can_connect or accepts_connections
        self._monotonic = monotonic
        self._is_stepped = is_stepped
        self._lock = threading.Lock()
        self._clients: WeakSet[ClientLog] = WeakSet()
        self._thread: threading.Thread | None = None
        self._failed: dict[str, str] = {}  # what each broker's last failure was, not yet looked at
        self._away: set[str] = set()  # announced
        self._back: dict[str, float] = {}  # when they were reached again, which is not announced
        self._shown_at: dict[str, float] = {}

    def new_log(self) -> ClientLog:
        """Return a logger for clients; without any, brokers are not watched."""
        made = ClientLog(self)
        with self._lock:
            self._clients.add(made)
        return made

    def log(self, level: int, text: str, *args: object) -> None:
        """Take a line, see `ClientLog.log`."""
        facility, message = (str(args[0]), str(args[-1])) if len(args) > 2 else ("", text % args)
        message = _IN_STATE.sub("", _THREAD.sub("", message))
        found = _BROKER.fullmatch(message)
        # Not in the name of the broker, which begins with the protocol: ``sasl_ssl://``.
        problem = message if found is None else found["problem"].replace(found["address"], "")
        if _OF_SETTINGS.search(problem):
            self._pass_on(level, message)
        elif facility == "FAIL" and found is not None:
            self._logger.debug("%s", message)
            if level >= logging.WARNING:
                self._note(found["address"], found["problem"])
        elif facility in _REPEATED:
            self._logger.debug("%s", message)
        else:
            self._pass_on(level, message)

    def _pass_on(self, level: int, message: str) -> None:
        """Log a message, unless it was logged just now: each of many clients repeats it."""
        now = self._monotonic()
        with self._lock:
            shown_at = self._shown_at.get(message)
            if shown_at is not None and now - shown_at < _REPEAT_SECONDS:
                return
            if len(self._shown_at) >= _TEXTS_MAX:
                self._shown_at.clear()
            self._shown_at[message] = now
        self._logger.log(level, "%s", message)

    def _note(self, address: str, problem: str) -> None:
        """Take note of a failed connection, and begin to watch."""
        reason = _REASON.fullmatch(problem)
        with self._lock:
            if address in self._away or len(self._failed) >= _BROKERS_MAX:
                return
            self._failed[address] = problem if reason is None else reason[1]
            if self._thread is None and not self._is_stepped:
                self._thread = threading.Thread(
                    target=self._run, name="recrawl-brokers", daemon=True
                )
                self._thread.start()

    def step(self) -> bool:
        """Look at the brokers that failed, announce changes, and return whether to go on."""
        with self._lock:
            if not self._clients:  # nobody tries to reach them any longer
                self._failed, self._away, self._back, self._thread = {}, set(), {}, None
                return False
            failed, self._failed = self._failed, {}
            away = set(self._away)
        # One that accepts a connection has only ended an old one.
        gone = {one: why for one, why in failed.items() if not self._can_connect(one)}
        found = [one for one in sorted(away) if self._can_connect(one)]
        now = self._monotonic()
        back = {**dict.fromkeys(found, now), **self._back}
        # They may come and go for a while until it is announced that they are back.
        news = {one: why for one, why in gone.items() if one not in back}
        for one in gone:
            back.pop(one, None)
        away = away.difference(found) | gone.keys()
        # Those that went together return together, but not if one never does.
        is_told = bool(back) and (not away or now - min(back.values()) >= _REPEAT_SECONDS)
        if news:
            self._logger.warning(
                "no connection to %s: %s; trying again until there is one",
                _broker_names(news),
                "; ".join(sorted(set(news.values()))),
            )
        if is_told:
            self._logger.warning("%s can be reached again", _broker_names(back))
        with self._lock:
            self._away, self._back = away, {} if is_told else back
            goes_on = bool(self._away or self._failed)
            if not goes_on:
                self._thread = None
        return goes_on

    def _run(self) -> None:
        time.sleep(_STEP_SECONDS)  # so that brokers that go together are announced together
        while self.step():
            time.sleep(_STEP_SECONDS)


def _broker_names(addresses: Collection[str]) -> str:
    brokers = "broker" if len(addresses) == 1 else "brokers"
    return f"the Kafka {brokers} {', '.join(sorted(addresses))}"


def accepts_connections(address: str) -> bool:
    """Return whether something listens at an address.

    Parameters
    ----------
    address
        Name or number of the host, and the port: ``"10.1.0.7:9092"``.
    """
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS_MAX).close()
    except (OSError, ValueError):
        return False
    return True
