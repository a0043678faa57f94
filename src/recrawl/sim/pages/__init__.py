"""Simulated pages with known truth: bodies as servers send them, and whether the content changed.

A site has pages of one kind (`KINDS`).  Its answers contain what real ones do: menus, clocks,
tokens, ads, teasers, cookie banners, two variants of an experiment, announcements, new designs,
old copies, damaged answers, and answers that are not the page.  `Answer` has the truth beside the
body.  `HELD_OUT` names the kinds that must not be used to tune rules.
"""

from recrawl.sim.pages.material import EditSize
from recrawl.sim.pages.sites import HELD_OUT, KINDS, START_AT, Answer, PageSite, make_site
from recrawl.sim.pages.view import PageKind
from recrawl.sim.pages.wrong_answers import AnswerFault

__all__ = [
    "HELD_OUT",
    "KINDS",
    "START_AT",
    "Answer",
    "AnswerFault",
    "EditSize",
    "PageKind",
    "PageSite",
    "make_site",
]
