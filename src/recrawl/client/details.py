"""Answers of a service that a client passes on as they are: explanations and plans."""

from collections.abc import Mapping
from typing import Any

__all__ = ["ServiceDetails"]


class ServiceDetails:
    """An explanation or a plan, as the service describes it.

    Each member of the service's answer is an attribute, such as ``page.due_at_ms``.

    Parameters
    ----------
    members
        Members of the answer.
    """

    def __init__(self, members: Mapping[str, Any]) -> None:
        self._members = dict(members)

    @property
    def words(self) -> list[str]:
        """The answer in sentences."""
        words = self._members.get("words", [])
        return [words] if isinstance(words, str) else [str(one) for one in words]

    def as_dict(self) -> dict[str, Any]:
        """Return everything but the words as plain dictionaries, lists and numbers."""
        return {name: value for name, value in self._members.items() if name != "words"}

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["_members"][name]
        except KeyError:
            raise AttributeError(f"the answer has no member {name!r}") from None

    def __repr__(self) -> str:
        return f"<ServiceDetails: {', '.join(self._members)}>"
