"""Answers with status 200 that are not the page: not found, blocked, consent, login, shells.

Sites of held-out kinds use their own texts, so that rules tuned on the others meet new ones.
"""

from dataclasses import dataclass
from enum import StrEnum
from html import escape

from recrawl.sim.pages.chrome import Traits, render_document
from recrawl.sim.pages.draws import Draws
from recrawl.sim.pages.view import View

__all__ = ["AnswerFault", "render_wrong_answer"]


class AnswerFault(StrEnum):
    """What is wrong with an answer.

    `TRUNCATED` and `MISENCODED` answers are damaged; the others are not the page at all.
    """

    SOFT_404 = "soft_404"
    BLOCKED = "blocked"
    CONSENT = "consent"
    LOGIN = "login"
    EMPTY_SHELL = "empty_shell"
    SAME_FOR_MANY = "same_for_many"
    TRUNCATED = "truncated"
    MISENCODED = "misencoded"

    @property
    def is_damage(self) -> bool:
        """Whether the answer is the page, but damaged on its way."""
        return self in (AnswerFault.TRUNCATED, AnswerFault.MISENCODED)


@dataclass(frozen=True, slots=True)
class _Words:
    title: str
    heading: str
    text: str


_NOT_FOUND = {
    "en": (
        _Words("Page not found", "404", "Sorry, the page you are looking for does not exist."),
        _Words(
            "Oops!",
            "Oops! That page can't be found.",
            "It looks like nothing was found at this location. Maybe try a search?",
        ),
        _Words(
            "Error",
            "This page is no longer available",
            "The page may have been removed, had its name changed, or is temporarily unavailable.",
        ),
    ),
    "de": (
        _Words(
            "Seite nicht gefunden",
            "Seite nicht gefunden",
            "Die gewünschte Seite wurde leider nicht gefunden.",
        ),
    ),
    "fr": (_Words("Page introuvable", "Erreur 404", "La page que vous recherchez n'existe plus."),),
    "es": (_Words("Página no encontrada", "Error 404", "La página que busca no existe."),),
    "ja": (
        _Words(
            "ページが見つかりません",
            "ページが見つかりません",
            "お探しのページは削除されたか、移動した可能性があります。",
        ),
    ),
    "ar": (_Words("الصفحة غير موجودة", "404", "عذرا، الصفحة التي تبحث عنها غير موجودة."),),
}
_NOT_FOUND_HELD_OUT = {
    "en": (
        _Words(
            "We couldn't find that",
            "Nothing to see here",
            "The link you followed may be broken, or the content has been taken down.",
        ),
        _Words(
            "Listing expired",
            "This listing has expired",
            "It was deleted by its owner. Have a look at similar ones below.",
        ),
        _Words("Not found", "HTTP 404 - File not found", "The resource cannot be located."),
    ),
    "ru": (_Words("Страница не найдена", "Ошибка 404", "Запрошенная страница не существует."),),
    "zh": (_Words("页面不存在", "404", "抱歉，您访问的页面不存在或已被删除。"),),
    "he": (_Words("הדף לא נמצא", "404", "הדף שחיפשת אינו קיים או הוסר."),),
}
_BLOCK = (
    _Words(
        "Just a moment...",
        "Checking your browser before accessing {host}",
        "This process is automatic. Your browser will redirect to your requested content shortly.",
    ),
    _Words(
        "Access Denied",
        "Access Denied",
        "You don't have permission to access this page on this server. Reference #18.{token}",
    ),
    _Words(
        "Attention Required!",
        "Sorry, you have been blocked",
        "You are unable to access {host}. The action you just performed triggered the security "
        "solution. Your IP: 203.0.113.{number}",
    ),
)
_BLOCK_HELD_OUT = (
    _Words(
        "Are you a robot?",
        "Please verify you are a human",
        "Press and hold the button to confirm you are a human and not a bot. ID: {token}",
    ),
    _Words(
        "Unusual traffic",
        "Too many requests from your network",
        "Our systems have detected unusual traffic. Solve the captcha below to continue.",
    ),
    _Words(
        "{host}",
        "Pardon our interruption",
        "Something about your browser made us think you are a bot. Request {token}",
    ),
)
_CONSENT = (
    _Words(
        "Before you continue",
        "Before you continue to {host}",
        "We use cookies and data to deliver and maintain our services. If you choose to accept "
        "all, we will also use them to develop new services and show personalised content.",
    ),
    _Words(
        "Your privacy",
        "We value your privacy",
        "With your consent, we and our 812 partners use cookies to store and access personal "
        "data. Accept all or manage options.",
    ),
)
_CONSENT_HELD_OUT = (
    _Words(
        "Cookie choices",
        "Continue with advertising or subscribe",
        "Use this site with tracking and cookies, or buy a subscription without tracking. You can "
        "withdraw your consent at any time.",
    ),
    _Words(
        "{host}",
        "Please choose your cookie settings",
        "To enter the site, accept necessary cookies only or all cookies.",
    ),
)
_LOGIN = (
    _Words("Log in", "Log in to continue", "Please enter your user name and password."),
    _Words("Sign in", "Sign in to your account", "Do not have an account yet? Create one."),
)
_LOGIN_HELD_OUT = (
    _Words("Welcome back", "Members only", "Enter your e-mail address and we send you a link."),
    _Words("Session expired", "Your session has expired", "Please authenticate again to proceed."),
)
_DOWN = (
    _Words(
        "Maintenance",
        "We'll be back soon!",
        "We are performing scheduled maintenance. The site will be online again shortly.",
    ),
    _Words(
        "Service unavailable",
        "The service is temporarily unavailable",
        "Our servers are at capacity. Please try again in a few minutes.",
    ),
)
_DOWN_HELD_OUT = (
    _Words("Database error", "Error establishing a database connection", ""),
    _Words(
        "Upgrade in progress",
        "We are moving to new servers",
        "Thank you for your patience. Nothing is lost.",
    ),
)


def _fill(words: _Words, view: View, request: Draws) -> _Words:
    fields = {
        "host": view.host,
        "token": request.token(12),
        "number": str(request.integer(1, 254)),
    }
    return _Words(
        words.title.format_map(fields),
        words.heading.format_map(fields),
        words.text.format_map(fields),
    )


def _bare_page(words: _Words, view: View, extra: str) -> str:
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head><meta charset="utf-8"><title>'
        f'{escape(words.title)}</title><meta name="robots" content="noindex,nofollow">\n<style>body'
        "{font-family:system-ui,sans-serif;margin:10vh auto;max-width:40rem;color:#313131}.spinner{"
        f"animation:spin 1s linear infinite}}</style></head>\n<body><div class='wrapper'><h1>"
        f"{escape(words.heading)}</h1><p>{escape(words.text)}</p>{extra}</div>\n<script>window._opt="
        f"{{r:'{view.request.token(32)}',t:'{view.at}'}};</script></body></html>\n"
    )


def _shell(view: View, traits: Traits) -> str:
    build = Draws(view.host, "build", view.at // 172_800).token(10)
    name = Draws(view.host, "shell").choose(["root", "app", "__next"])
    style = "".join(f".s{i}{{opacity:{i}}}" for i in range(traits.n_style_rules))
    return (
        f'<!DOCTYPE html><html lang="{view.language.code}"><head><meta charset="utf-8"><title>'
        f'{view.host}</title><meta name="viewport" content="width=device-width"><link '
        f'rel="stylesheet" href="/static/css/main.{build}.css"><style>{style}</style></head><body>'
        "<noscript>You need to enable JavaScript to run this app.</noscript>"
        f'<div id="{name}"></div><script>window.__env={{"build":"{build}","request":"'
        f'{view.request.token(16)}"}}</script><script src="/static/js/main.{build}.js"></script>'
        "</body></html>"
    )


def render_wrong_answer(
    fault: AnswerFault, view: View, design_name: str, traits: Traits, *, is_held_out: bool
) -> str:
    """Return the HTML that a site sends instead of a page.

    Parameters
    ----------
    fault
        Fault of the answer; not one that is only damaged.
    view, design_name, traits
        See `recrawl.sim.pages.chrome.render_document`.
    is_held_out
        Whether the site belongs to a held-out kind, which has its own texts.
    """
    site = Draws(view.host, "wrong answer", fault)
    request = view.request
    code = view.language.code
    if fault is AnswerFault.EMPTY_SHELL:
        return _shell(view, traits)
    if fault is AnswerFault.BLOCKED:
        words = _fill(site.choose(_BLOCK_HELD_OUT if is_held_out else _BLOCK), view, request)
        return _bare_page(words, view, f'<div class="ray">Ray ID: {request.token(16)}</div>')
    if fault is AnswerFault.CONSENT:
        words = _fill(site.choose(_CONSENT_HELD_OUT if is_held_out else _CONSENT), view, request)
        form = (
            f'<form action="/consent"><input type="hidden" name="back" value="/{view.page}">'
            "<button>Accept all</button><button>Reject all</button><a href='/options'>More options"
            "</a></form>"
        )
        return _bare_page(words, view, form)
    if fault is AnswerFault.SAME_FOR_MANY and site.chance(0.6):
        return _bare_page(site.choose(_DOWN_HELD_OUT if is_held_out else _DOWN), view, "")
    if fault is AnswerFault.SAME_FOR_MANY:
        # Some sites answer with their front page for what they cannot find.
        front = Draws(view.host, "front page")
        title = view.language.title(front, 3)
        main = f"<h1>{escape(title)}</h1>" + "".join(
            f"<p>{escape(view.language.paragraph(front, 2))}</p>\n" for _ in range(4)
        )
        return render_document(main, title, view, design_name, traits, kind="home")
    if fault is AnswerFault.LOGIN:
        words = site.choose(_LOGIN_HELD_OUT if is_held_out else _LOGIN)
        main = (
            f'<div class="login-box"><h1>{words.heading}</h1><p>{words.text}</p><form '
            f'action="/login" method="post"><input type="hidden" name="_csrf" value="'
            f'{request.token(36)}"><label>E-mail <input name="user"></label><label>Password <input '
            f'type="password" name="password"></label><button>{words.title}</button></form><a '
            'href="/forgot">Forgot password?</a></div>\n'
        )
        return render_document(main, words.title, view, design_name, traits, kind="login")
    texts = _NOT_FOUND_HELD_OUT if is_held_out else _NOT_FOUND
    words = site.choose(texts.get(code, texts["en"]))
    links = "".join(
        f"<li><a href='/{i}'>{escape(view.language.title(site, 4))}</a></li>" for i in range(5)
    )
    main = f"<h1>{words.heading}</h1><p>{words.text}</p><ul>{links}</ul>\n"
    return render_document(main, words.title, view, design_name, traits, kind="error")
