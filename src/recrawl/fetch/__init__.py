"""Who talks to the network: a polite, guarded fetcher, and the protocol for another one.

`HttpFetcher` obeys robots.txt files and the delays of hosts, connects to public addresses alone,
and limits time, size and expansion.  It needs the extra ``recrawl[run]``.
"""

from recrawl.fetch.addresses import Network, address_refusal, parse_networks
from recrawl.fetch.fetch_time import FetchTime, SystemTime
from recrawl.fetch.fetcher import (
    FetchAnswer,
    FetchKind,
    FetchProblem,
    FetchRedirect,
    FetchRequest,
    PageFetcher,
)
from recrawl.fetch.gate_file import GateFile
from recrawl.fetch.host_gate import GateRecords, HostGate, HostState
from recrawl.fetch.http_fetcher import HttpFetcher
from recrawl.fetch.robots import RobotsFile, RobotsRules, RobotsState, product_token
from recrawl.fetch.settings import FetchSettings

__all__ = [
    "FetchAnswer",
    "FetchKind",
    "FetchProblem",
    "FetchRedirect",
    "FetchRequest",
    "FetchSettings",
    "FetchTime",
    "GateFile",
    "GateRecords",
    "HostGate",
    "HostState",
    "HttpFetcher",
    "Network",
    "PageFetcher",
    "RobotsFile",
    "RobotsRules",
    "RobotsState",
    "SystemTime",
    "address_refusal",
    "parse_networks",
    "product_token",
]
