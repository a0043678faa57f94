"""Phrases by which error pages, block pages, consent pages and login walls are recognised.

They are hints only: `recrawl.content.judging` also looks at what the page was before.
"""

import re
from enum import IntFlag
from typing import Final

__all__ = ["AnswerHint", "find_hints"]

HINT_WORDS_MAX: Final = 600
"""Words up to which a page is searched: wrong answers are short."""
_SIGNS_MAX: Final = 6_000


class AnswerHint(IntFlag):
    """What an answer reads like."""

    NOT_FOUND = 1
    ERROR = 2
    BLOCKED = 4
    CONSENT = 8
    LOGIN = 16
    NEEDS_SCRIPT = 32
    IN_TITLE = 64
    """The title says so."""
    IN_TEXT = 128
    """The text says so."""


# Phrases in lower case, as regular expressions.  Those of the title may stand anywhere in it; those
# of the text are rare in ordinary pages.
_IN_TITLE: Final = {
    AnswerHint.NOT_FOUND: (
        r"\b(?:404|410)\b",
        r"not found|does ?n[o'’]t exist|no longer (?:available|exists)",
        r"page (?:is )?(?:missing|unavailable|gone)",
        r"introuvable|nicht gefunden|no encontrad|non trovata|não encontrad|niet gevonden",
        r"не найдена|見つかりません|页面不存在|找不到|غير موجودة|לא נמצא|찾을 수 없",
    ),
    AnswerHint.ERROR: (
        r"^\W*error\b|^\W*50[0234]\b|\b50[0234]\W+(?:error|server|bad|service|gateway)",
        r"server error|bad gateway|gateway time-?out",
        r"(?:service|temporarily) unavailable|something went wrong",
        r"(?:under|for|site|undergoing|scheduled) maintenance|maintenance (?:mode|break)",
        r"^\W*maintenance\W*$",
        r"under construction|site indisponible|wartungs",
    ),
    AnswerHint.BLOCKED: (
        r"just a moment|attention required|forbidden|\b(?:403|429)\b|captcha",
        r"(?:are you|not) a robot|robot (?:check|or human|verification)",
        r"access (?:to this page has been )?denied|are you (?:a )?human|human verification",
        r"verify (?:that )?you|security check|checking your browser|blocked|unusual traffic",
        r"too many requests|rate limit|pardon our interruption|ddos",
        r"bot (?:check|protection|detection)|zugriff verweigert|accès refusé|acceso denegado",
    ),
    AnswerHint.CONSENT: (
        r"before you continue|^\W*consent\b|cookie consent|consent (?:required|needed|to)\b",
        r"your privacy choices|we value your privacy",
        r"(?:privacy|cookie) settings|bevor (?:sie|du) fort|avant d.acc[ée]der",
    ),
    AnswerHint.LOGIN: (
        r"^\W*(?:sign|log)[ -]?(?:in|on)\b|\b(?:sign|log)[ -]?in\W*$|log ?in required",
        r"anmelden|einloggen|se connecter|connexion|iniciar sesión|accedi|inloggen",
        r"members only|subscribe to (?:continue|read)",
    ),
    AnswerHint.NEEDS_SCRIPT: (r"^\W*loading\b|javascript (?:is )?(?:required|disabled)",),
}
_IN_TEXT: Final = {
    AnswerHint.NOT_FOUND: (
        r"(?:page|article|item|product|document|content|resource|url|file)"
        r"(?: that| which)?(?: you(?:[’']re| are| were|[’']ve)? (?:looking for|requested))?"
        r"(?: has been| has| could| can| is| was| does| may be)? ?"
        r"(?:no longer|not (?:be )?(?:found|exist|available)|cannot be found|removed|deleted)",
        r"page (?:isn|doesn|couldn|can)[’']?t (?:be found|exist|available)",
        r"this page (?:isn|doesn)\W?t",
        r"\b404\b.{0,40}(?:not found|error|page)|error 404|page (?:was )?not found",
        r"nothing (?:was )?found here",
        r"we (?:could ?n[o'’]t|can[’']?t|cannot) find (?:the|that|this)",
        r"seite (?:wurde )?nicht gefunden|page introuvable|página no encontrada",
    ),
    AnswerHint.ERROR: (
        r"something went wrong|an? (?:unexpected|internal|unknown) (?:server )?error",
        r"temporarily unavailable|try again (?:later|in a few)|(?:down for|undergoing) maintenance",
        r"bad gateway|service unavailable|be back (?:soon|shortly)",
    ),
    AnswerHint.BLOCKED: (
        r"verify(?:ing)? (?:that )?you are|are you a (?:human|robot)|not a robot",
        r"complete the (?:captcha|security check)|prove (?:that )?you(?:[’']re| are)",
        r"checking (?:if the site connection|your browser)|unusual (?:traffic|activity)",
        r"enable (?:javascript and )?cookies to continue|too many requests|ray id",
        r"access (?:to this (?:page|site|resource) )?(?:has been |is |was )?(?:denied|blocked)",
        r"you (?:have been|are|were) blocked|you do ?n[o'’]t have (?:permission|access)",
        r"request (?:has been |was )?blocked|automated (?:access|requests|queries)",
        r"security service to protect|ddos protection|reference (?:id|number)\W",
    ),
    AnswerHint.CONSENT: (
        r"before you continue|we value your privacy|accept all.{0,80}reject all",
        r"(?:manage|choose) your (?:privacy|cookie|consent)|partners (?:store|process)",
        r"consent (?:to|before)|to continue.{0,60}(?:cookies|consent)|we and our (?:\d+ )?partners",
    ),
    AnswerHint.LOGIN: (
        r"forgot(?:ten)? (?:your )?password|remember me|keep me (?:signed|logged) in",
        r"(?:sign|log) ?in to (?:continue|view|access|see|read|your)",
        r"(?:please|you (?:must|need to)) (?:sign|log) ?in|create (?:an|your) account",
        r"already (?:have an account|a member|registered)|(?:subscribers|members?) only",
        r"to continue reading|passwort vergessen|mot de passe oubli",
    ),
    AnswerHint.NEEDS_SCRIPT: (
        r"(?:enable|requires?|needs?|turn on|activate|without) (?:your )?java ?script",
        r"java ?script (?:is )?(?:required|disabled|not enabled|to run)|^\W*loading\W*$",
        r"please wait while|loading(?: application| the page)?(?:\.\.\.|…)",
    ),
}
_TITLE_PATTERNS: Final = {hint: re.compile("|".join(parts)) for hint, parts in _IN_TITLE.items()}
_TEXT_PATTERNS: Final = {hint: re.compile("|".join(parts)) for hint, parts in _IN_TEXT.items()}


def find_hints(title: str, text: str, n_words: int) -> int:
    """Return the bits of `AnswerHint` that the title and the text of a page suggest.

    Parameters
    ----------
    title
        Title of the page.
    text
        Visible text, at least its beginning.
    n_words
        Words of the whole text; a page of more than `HINT_WORDS_MAX` gets no hints.
    """
    if n_words > HINT_WORDS_MAX:
        return 0
    found = AnswerHint(0)
    lower = title[:300].lower()
    for hint, pattern in _TITLE_PATTERNS.items():
        if pattern.search(lower):
            found |= hint | AnswerHint.IN_TITLE
    lower = " ".join(text[:_SIGNS_MAX].lower().split())
    for hint, pattern in _TEXT_PATTERNS.items():
        if pattern.search(lower):
            found |= hint | AnswerHint.IN_TEXT
    return int(found)
