"""Pages of real words that churn and scroll, their shingles, and bottom-m sketches by the book."""

from collections.abc import Iterable
from hashlib import blake2b

import numpy as np

_COMMON_WORDS = """
" about above across act actually add after again against age ago air all almost along already
also always am among an and animal another answer any appear apple are area arm around arrive art
as ask at away baby back bad ball bank base be beat beautiful became because become bed been
before began behind believe below best better between big bird black blood blue board boat body
book born both bottom box boy branch bread break bright bring brother brought brown build burn
busy but buy by call came camp can captain car care carry case catch caught cause cell cent center
certain chair chance change check chief child children choose circle city class clean clear climb
clock close clothe cloud coast coat cold collect colony colour come common company compare
complete condition consider contain continue control cook cool copy corn corner correct cost
cotton could count country course cover cow create crop cross crowd cry current cut dance danger
dark day dead deal dear death decide deep degree depend describe desert design determine develop
dictionary die differ difficult direct discuss distant divide do doctor does dog dollar done door
double down draw dream dress drink drive drop dry duck during each ear early earth ease east eat
edge effect egg eight either electric element else end enemy energy engine enough enter equal
especially even evening event ever every exact example except excite exercise expect experience
experiment eye face fact fair fall family famous far farm fast fat father favour fear feed feel
feet fell felt few field fight figure fill final find fine finger finish fire first fish fit five
flat floor flow flower fly follow food foot for force forest form forward found four fraction free
fresh friend from front fruit full fun game garden gas gather gave general gentle get girl give
glad glass go gold gone good got govern grand grass gray great green grew ground group grow guess
guide gun had hair half hand happen happy hard has hat have he head hear heard heart heat heavy
held help her here high hill him his history hit hold hole home hope horse hot hour house how huge
human hundred hunt hurry ice idea if imagine in inch include indicate industry insect instant
instrument interest invent iron is island it job join joy jump just keep kept key kill kind king
knew know lady lake land language large last late laugh law lay lead learn least leave led left
leg length less let letter level lie life lift light like line liquid list listen little live
locate log lone
"""
WORDS = _COMMON_WORDS.split()

N_WORDS_PER_SHINGLE = 4


def shingles(words: list[str]) -> set[str]:
    """Return the fragments of a text: its runs of four words."""
    n = N_WORDS_PER_SHINGLE
    return {" ".join(words[i : i + n]) for i in range(len(words) - n + 1)}


def fragments(blocks: Iterable[list[str]]) -> set[str]:
    """Return the fragments of a page, whose blocks are read one by one."""
    found: set[str] = set()
    for block in blocks:
        found |= shingles(block)
    return found


def jaccard_distance(first: set[str], second: set[str]) -> float:
    return 1 - len(first & second) / len(first | second)


class Writer:
    """Writes blocks of words that share no shingle, as far as chance allows."""

    def __init__(self, rng: np.random.Generator, *, n_fragments: int) -> None:
        self._rng = rng
        self._n_words = n_fragments + N_WORDS_PER_SHINGLE - 1

    def block(self) -> list[str]:
        return [WORDS[i] for i in self._rng.integers(len(WORDS), size=self._n_words)]

    def blocks(self, n: int) -> list[list[str]]:
        return [self.block() for _ in range(n)]


def scroll_versions(
    writer: Writer, *, n_static: int, n_items: int, n_updates: int
) -> tuple[set[str], set[str]]:
    """Return the fragments of a scroll page before and after updates that each add an item."""
    static = writer.blocks(n_static)
    items = writer.blocks(n_items)
    before = fragments(static + items)
    for _ in range(n_updates):
        items = [writer.block(), *items[:-1]]
    return before, fragments(static + items)


def churn_versions(
    writer: Writer, *, n_static: int, n_dynamic: int, n_updates: int
) -> tuple[set[str], set[str]]:
    """Return the fragments of a churn page before and after updates that replace a part of it."""
    static = writer.blocks(n_static)
    dynamic = writer.blocks(n_dynamic)
    before = fragments(static + dynamic)
    for _ in range(n_updates):
        dynamic = writer.blocks(n_dynamic)
    return before, fragments(static + dynamic)


def sketch(fragments_of_page: set[str], size: int) -> list[int]:
    """Return the smallest hashes of the fragments."""
    hashes = {
        int.from_bytes(blake2b(text.encode(), digest_size=4).digest(), "big")
        for text in fragments_of_page
    }
    return sorted(hashes)[:size]


def sketch_distance(first: list[int], second: list[int], size: int) -> float:
    """Return one minus the share of the smallest hashes of the union that both sketches have."""
    smallest = sorted(set(first) | set(second))[:size]
    return 1 - sum(h in set(first) and h in set(second) for h in smallest) / len(smallest)
