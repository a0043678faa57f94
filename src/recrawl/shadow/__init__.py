"""Shadow mode: read the log of another crawler, and report what recrawl would have done."""

from recrawl.shadow.estimates import ShadowEstimate, combine_imputations, estimate_shadow
from recrawl.shadow.followed_file import FollowedFile, LogChunk
from recrawl.shadow.followed_topic import FollowedTopic
from recrawl.shadow.report import shadow_html, shadow_lines
from recrawl.shadow.shadowing import (
    FollowedLog,
    LogCounts,
    Shadow,
    ShadowReport,
    ShadowSettings,
    WeekResult,
)
from recrawl.shadow.weeks import week_name, week_start

__all__ = [
    "FollowedFile",
    "FollowedLog",
    "FollowedTopic",
    "LogChunk",
    "LogCounts",
    "Shadow",
    "ShadowEstimate",
    "ShadowReport",
    "ShadowSettings",
    "WeekResult",
    "combine_imputations",
    "estimate_shadow",
    "shadow_html",
    "shadow_lines",
    "week_name",
    "week_start",
]
