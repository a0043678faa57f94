"""All limits of the dashboard, in one place."""

from dataclasses import dataclass

from recrawl.service.limits import limit_field

__all__ = ["DashboardLimits"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DashboardLimits:
    """Limits of the dashboard; `recrawl.service.limit_rows` says what each is for."""

    sessions_max: int = limit_field(
        1_000, "people who are logged in at a time", "who was away longest is logged out"
    )
    key_sessions_max: int = limit_field(
        20, "people who are logged in with one API key", "who was away longest is logged out"
    )
    idle_seconds_max: float = limit_field(
        12 * 3_600.0, "time without a click after which a person is logged out", "login"
    )
    session_seconds_max: float = limit_field(
        7 * 86_400.0, "time after which a person has to log in again", "login"
    )
    logins_per_second: float = limit_field(
        1.0, "attempts of an address to log in, in a second", "429 too-many-requests"
    )
    pages_per_second: float = limit_field(
        10.0, "pages that a person who is logged in opens in a second", "429 too-many-requests"
    )
    address_pages_per_second: float = limit_field(
        20.0, "pages that an address opens in a second without a login", "429 too-many-requests"
    )
    form_bytes_max: int = limit_field(65_536, "size of a form that is sent", "413 body-too-large")
    form_seconds_max: float = limit_field(
        10.0, "time in which a form must arrive", "408 body-too-slow"
    )
    fields_max: int = limit_field(100, "fields of a form", "400 invalid-body")
    kept_seconds: float = limit_field(5.0, "age of what a page shows", "the corpus is asked again")
    kept_max: int = limit_field(256, "results that are kept for pages", "the oldest is dropped")
