"""The meaningful content of a page, and the edits that change it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

from recrawl.sim.pages.draws import Draws
from recrawl.sim.pages.language import Language, person

__all__ = ["EditSize", "Item", "Material", "edit_material", "make_material"]


class EditSize(StrEnum):
    """How much of a page a change concerns."""

    WORD = "word"
    NUMBER = "number"
    TITLE = "title"
    PARAGRAPH = "paragraph"
    ITEM = "item"


@dataclass(frozen=True, slots=True)
class Item:
    """One entry of a list, one answer of a thread, one product of a shop."""

    number: int
    title: str
    text: str
    author: str
    at: int  # when it was added: seconds since 1970
    amount: int = 0  # price in cents, or score; 0 if it has none


@dataclass(frozen=True, slots=True)
class Material:
    """Everything on a page that means something; all else is template or noise."""

    title: str
    author: str
    published_at: int
    paragraphs: tuple[str, ...] = ()
    items: tuple[Item, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    n_items_max: int = 0
    shows_amounts: bool = False

    def texts(self) -> tuple[str, ...]:
        """Return the meaningful texts in the order of the page."""
        found = [self.title, *self.paragraphs]
        for item in self.items:
            found += [item.title, item.text] if item.text else [item.title]
            if self.shows_amounts:
                found.append(money(item.amount))
        for label, value in self.facts:
            found += [label, value]
        return tuple(found)


def money(cents: int) -> str:
    """Return an amount as shops write it.

    Examples
    --------
    >>> money(123456)
    '1,234.56'
    """
    return f"{cents // 100:,}.{cents % 100:02d}"


def make_item(
    draws: Draws, language: Language, number: int, at: int, *, n_sentences: int, has_amount: bool
) -> Item:
    """Return a new item."""
    return Item(
        number,
        language.title(draws, draws.integer(4, 8)),
        language.paragraph(draws, draws.integer(1, n_sentences)) if n_sentences else "",
        person(draws),
        at,
        draws.integer(299, 89_999) if has_amount else 0,
    )


def make_material(
    draws: Draws,
    language: Language,
    at: int,
    *,
    paragraphs: tuple[int, int] = (0, 0),
    items: tuple[int, int] = (0, 0),
    n_sentences: int = 1,
    facts: tuple[tuple[str, str], ...] = (),
    has_amounts: bool = False,
    n_items_max: int = 0,
) -> Material:
    """Return the first version of a page.

    Parameters
    ----------
    draws, language
        Source of the text.
    at
        Instant at which the page was published, in seconds since 1970.
    paragraphs, items
        Fewest and most paragraphs and items.
    n_sentences
        Most sentences of an item; 0 for items without text.
    facts
        Labels with values; ``#`` is a digit, and ``a|b|c`` are options.
    has_amounts
        Whether each item has a price.
    n_items_max
        Number of items above which the oldest is dropped; twice the most of the first version if
        not given.
    """
    n_items = draws.integer(*items)
    return Material(
        title=language.title(draws, draws.integer(4, 9)),
        author=person(draws),
        published_at=at,
        paragraphs=tuple(
            language.paragraph(draws, draws.integer(2, 6))
            for _ in range(draws.integer(*paragraphs))
        ),
        items=tuple(
            make_item(
                draws,
                language,
                n_items - i,
                at + (n_items - i) * 7_200,
                n_sentences=n_sentences,
                has_amount=has_amounts,
            )
            for i in range(n_items)
        ),
        facts=tuple((label, _fill_value(draws, value)) for label, value in facts),
        n_items_max=n_items_max or 2 * items[1],
        shows_amounts=has_amounts,
    )


def _fill_value(draws: Draws, pattern: str) -> str:
    if "|" in pattern:
        return draws.choose(pattern.split("|"))
    text = ""
    for sign in pattern:
        text += str(draws.integer(1, 9)) if sign == "#" else sign
    return text


@dataclass(frozen=True, slots=True)
class _Edit:
    draws: Draws
    language: Language
    at: int
    facts: tuple[tuple[str, str], ...]  # the patterns of the page's kind
    n_sentences: int


def _replace_at(texts: tuple[str, ...], row: int, text: str) -> tuple[str, ...]:
    return (*texts[:row], text, *texts[row + 1 :])


def _replace_word(text: str, edit: _Edit) -> str:
    language = edit.language
    if not language.joiner:
        places = [word for word in language.words if word in text]
        if not places:
            return language.sentence(edit.draws) + text
        old = edit.draws.choose(sorted(places))
        return text.replace(old, language.other_word(edit.draws, old), 1)
    words = text.split(" ")
    places_by_row = [row for row, word in enumerate(words) if word in language.words]
    if not places_by_row:
        return text + " " + language.sentence(edit.draws)
    row = edit.draws.choose(places_by_row)
    words[row] = language.other_word(edit.draws, words[row])
    return " ".join(words)


def _edit_word(material: Material, edit: _Edit) -> Material:
    if material.paragraphs:
        row = edit.draws.integer(0, len(material.paragraphs) - 1)
        text = _replace_word(material.paragraphs[row], edit)
        return replace(material, paragraphs=_replace_at(material.paragraphs, row, text))
    row = edit.draws.integer(0, len(material.items) - 1)
    item = material.items[row]
    if item.text:
        item = replace(item, text=_replace_word(item.text, edit))
    else:
        item = replace(item, title=_replace_word(item.title, edit))
    return replace(material, items=(*material.items[:row], item, *material.items[row + 1 :]))


def _edit_paragraph(material: Material, edit: _Edit) -> Material:
    draws, rows = edit.draws, material.paragraphs
    text = edit.language.paragraph(draws, draws.integer(2, 6))
    row = draws.integer(0, len(rows) - 1)
    action = draws.choose(["rewrite", "insert", "insert", "remove"])
    if action == "remove" and len(rows) > 3:
        return replace(material, paragraphs=(*rows[:row], *rows[row + 1 :]))
    if action == "rewrite":
        return replace(material, paragraphs=_replace_at(rows, row, text))
    if len(rows) > 40:
        return replace(material, paragraphs=(*rows[:row], text, *rows[row + 2 :]))
    return replace(material, paragraphs=(*rows[:row], text, *rows[row:]))


def _edit_title(material: Material, edit: _Edit) -> Material:
    title = edit.language.title(edit.draws, edit.draws.integer(4, 9))
    if title == material.title:
        title += " " + edit.language.words[0]
    return replace(material, title=title)


def _new_item(material: Material, edit: _Edit) -> Item:
    return make_item(
        edit.draws,
        edit.language,
        max((item.number for item in material.items), default=0) + 1,
        edit.at,
        n_sentences=edit.n_sentences,
        has_amount=material.shows_amounts,
    )


def _add_first(material: Material, edit: _Edit) -> Material:
    items = (_new_item(material, edit), *material.items)
    return replace(material, items=items[: material.n_items_max])


def _add_last(material: Material, edit: _Edit) -> Material:
    items = (*material.items, _new_item(material, edit))
    return replace(material, items=items[-material.n_items_max :])


def _remove_item(material: Material, edit: _Edit) -> Material:
    if len(material.items) < 4:
        return _add_last(material, edit)
    row = edit.draws.integer(0, len(material.items) - 1)
    return replace(material, items=(*material.items[:row], *material.items[row + 1 :]))


def _edit_amount(material: Material, edit: _Edit) -> Material:
    row = edit.draws.integer(0, len(material.items) - 1)
    item = material.items[row]
    factor = edit.draws.choose([0.8, 0.9, 0.95, 1.05, 1.1, 1.25])
    item = replace(item, amount=max(int(item.amount * factor), 100) + 1)
    if item.amount == material.items[row].amount:
        item = replace(item, amount=item.amount + 1)
    return replace(material, items=(*material.items[:row], item, *material.items[row + 1 :]))


def _edit_fact(material: Material, edit: _Edit) -> Material:
    row = edit.draws.integer(0, len(material.facts) - 1)
    label, old = material.facts[row]
    value = old
    while value == old:
        value = _fill_value(edit.draws, edit.facts[row][1])
    return replace(
        material, facts=(*material.facts[:row], (label, value), *material.facts[row + 1 :])
    )


_EDITS: dict[str, tuple[EditSize, Callable[[Material, _Edit], Material]]] = {
    "word": (EditSize.WORD, _edit_word),
    "paragraph": (EditSize.PARAGRAPH, _edit_paragraph),
    "title": (EditSize.TITLE, _edit_title),
    "add_first": (EditSize.ITEM, _add_first),
    "add_last": (EditSize.ITEM, _add_last),
    "remove_item": (EditSize.ITEM, _remove_item),
    "amount": (EditSize.NUMBER, _edit_amount),
    "fact": (EditSize.NUMBER, _edit_fact),
}


def edit_material(
    material: Material,
    action: str,
    draws: Draws,
    language: Language,
    at: int,
    *,
    facts: tuple[tuple[str, str], ...] = (),
    n_sentences: int = 1,
) -> tuple[Material, EditSize]:
    """Return the next version of a page, which always differs, and the size of the edit.

    Parameters
    ----------
    material
        The version before.
    action
        Name of the edit: ``word``, ``paragraph``, ``title``, ``add_first``, ``add_last``,
        ``remove_item``, ``amount`` or ``fact``.
    draws, language
        Source of new text.
    at
        Instant of the edit, in seconds since 1970.
    facts, n_sentences
        See `make_material`.
    """
    size, change = _EDITS[action]
    return change(material, _Edit(draws, language, at, facts, n_sentences)), size
