"""Recognise crawler traps by their URLs: calendars without end, loops, sessions, filters.

A trap is a part of a site that makes ever more URLs.  Nothing about one of them is wrong, so what
is limited is how many URLs of one pattern are followed.  Pages that a sitemap names are not
limited here: the site says itself that they exist.
"""

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final, Self

__all__ = [
    "COMBINATIONS_MAX",
    "NUMBERED_MAX",
    "PARAMETERS_MAX",
    "PARTS_MAX",
    "TrapCounts",
    "family_of",
    "remove_session",
    "why_trapped",
]

NUMBERED_MAX: Final = 100
"""Number of pages whose URLs differ only in numbers and that link to each other."""
COMBINATIONS_MAX: Final = 20
"""Number of different sets of parameters that are followed for one path."""
PARAMETERS_MAX: Final = 8
"""Number of parameters of a URL."""
PARTS_MAX: Final = 20
"""Number of parts of a path."""
_REPEATS_MAX: Final = 3
_FAMILIES_MAX: Final = 2_000
_FAMILY_CHARACTERS_MAX: Final = 200

_SESSION_NAMES: Final = (
    "jsessionid|phpsessid|aspsessionid[a-z]*|asp\\.net_sessionid|sessionid|session_id|session|"
    "sessid|sid|cfid|cftoken|zenid|oscsid|osadcid"
)
_SESSION_PARAMETER: Final = re.compile(rf"(?:(?<=\?)|&)(?:{_SESSION_NAMES})=[^&]*", re.I)
_SESSION_IN_PATH: Final = re.compile(rf";(?:{_SESSION_NAMES})=[^/?#;]*", re.I)
_NUMBER: Final = re.compile(r"\d+")
# Tokens such as hashes and ids: long, of letters and digits.
_TOKEN: Final = re.compile(r"(?=[a-z]*\d)[0-9a-z]{16,}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def remove_session(url: str) -> str:
    """Return a URL without the id of a session, which would make each visit another page.

    Parameters
    ----------
    url
        Canonical URL.

    Examples
    --------
    >>> remove_session("https://a.example/shop;jsessionid=8A?page=2&PHPSESSID=77&x=1")
    'https://a.example/shop?page=2&x=1'
    """
    if ";" in url:
        url = _SESSION_IN_PATH.sub("", url)
    if "?" in url:
        url = _SESSION_PARAMETER.sub("", url).replace("?&", "?").rstrip("?")
    return url


def family_of(url: str) -> tuple[str, bool]:
    """Return the pattern of a URL up to its first number, and whether it has a number at all.

    URLs of one family differ only in numbers, ids and what follows them: the months and the days of
    a calendar, the pages of a list.

    Parameters
    ----------
    url
        Canonical URL.

    Examples
    --------
    >>> family_of("https://a.example/calendar/2026/1/14")
    ('/calendar/#', True)
    >>> family_of("https://a.example/tea?sort=name&page=12")
    ('/tea?page&sort', True)
    >>> family_of("https://a.example/tea/green")
    ('/tea/green', False)
    """
    path, _, query = _path_and_query(url).partition("?")
    parts = path.split("/")
    for i, part in enumerate(parts):
        if _NUMBER.search(part):
            shape = _NUMBER.sub("#", _TOKEN.sub("#", part.lower()))
            family = "/".join([*parts[:i], shape])
            return family[:_FAMILY_CHARACTERS_MAX], True
    if not query:
        return path[:_FAMILY_CHARACTERS_MAX], False
    family = f"{path}?{'&'.join(_parameter_names(query))}"
    return family[:_FAMILY_CHARACTERS_MAX], bool(_NUMBER.search(query))


def why_trapped(url: str) -> str | None:
    """Return the name of a reason not to follow a URL at all; None if there is none.

    Parameters
    ----------
    url
        Canonical URL.

    Examples
    --------
    >>> why_trapped("https://a.example/a/b/a/b/a/b/")
    'repeated_parts'
    """
    path, _, query = _path_and_query(url).partition("?")
    parts = [part for part in path.split("/") if part]
    if len(parts) > PARTS_MAX or query.count("&") >= PARAMETERS_MAX:
        return "too_long"
    if parts and max(Counter(parts).values()) >= _REPEATS_MAX:
        return "repeated_parts"
    return None


def _path_and_query(url: str) -> str:
    rest = url.partition("://")[2]
    slash = rest.find("/")
    return rest[slash:] if slash >= 0 else "/"


def _parameter_names(query: str) -> list[str]:
    return sorted({part.partition("=")[0] for part in query.split("&") if part})


@dataclass(slots=True)
class TrapCounts:
    """How many URLs of each pattern of one site were followed, and how many were refused.

    Parameters
    ----------
    n_linked
        Number of pages of the site that links have added.
    numbered
        Number of pages of each family that were reached from a page of the same family.
    combinations
        Sets of parameters that were followed, by path.
    refused
        Number of URLs that were not followed, by the names in `REFUSALS`.
    """

    n_linked: int = 0
    numbered: dict[str, int] = field(default_factory=dict)
    combinations: dict[str, list[str]] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)

    def admit(self, url: str, found_on: str, *, n_linked_max: int) -> str | None:
        """Count a URL that has not been seen before; return why it is not followed, or None.

        Parameters
        ----------
        url
            Canonical URL of the page.
        found_on
            Canonical URL of the page with the link.
        n_linked_max
            Number of pages of the site that links may add.
        """
        reason = self._why_not(url, found_on, n_linked_max)
        if reason is None:
            self.n_linked += 1
        else:
            self.refused[reason] = self.refused.get(reason, 0) + 1
        return reason

    def _why_not(self, url: str, found_on: str, n_linked_max: int) -> str | None:
        reason = why_trapped(url)
        if reason is not None:
            return reason
        if self.n_linked >= n_linked_max:
            return "too_many_pages"
        path, mark, query = _path_and_query(url).partition("?")
        if mark and not self._admit_combination(path, query):
            return "query_combinations"
        family, is_numbered = family_of(url)
        # A list links to its next page, a month to the next; products are linked from elsewhere.
        if is_numbered and family_of(found_on)[0] == family:
            n = self.numbered.get(family, 0)
            if n >= NUMBERED_MAX or (n == 0 and len(self.numbered) >= _FAMILIES_MAX):
                return "endless_numbers"
            self.numbered[family] = n + 1
        return None

    def _admit_combination(self, path: str, query: str) -> bool:
        names = "&".join(_parameter_names(query))[:_FAMILY_CHARACTERS_MAX]
        path = _NUMBER.sub("#", path)[:_FAMILY_CHARACTERS_MAX]
        known = self.combinations.get(path)
        if known is None:
            if len(self.combinations) >= _FAMILIES_MAX:
                return False
            known = self.combinations[path] = []
        if names in known:
            return True
        if len(known) >= COMBINATIONS_MAX:
            return False
        known.append(names)
        return True

    def as_dict(self) -> dict[str, Any]:
        """Return the counts as plain numbers, lists and dictionaries."""
        return {
            "n_linked": self.n_linked,
            "numbered": self.numbered,
            "combinations": self.combinations,
            "refused": self.refused,
        }

    @classmethod
    def of_dict(cls, fields: dict[str, Any]) -> Self:
        """Return the counts that `as_dict` returned."""
        return cls(
            n_linked=int(fields["n_linked"]),
            numbered=dict(fields["numbered"]),
            combinations={path: list(sets) for path, sets in fields["combinations"].items()},
            refused=dict(fields["refused"]),
        )
