"""Find pages by themselves: from robots.txt files, sitemaps, feeds and links."""

import math
from collections.abc import AsyncGenerator, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from recrawl.corpus import Corpus, Order, Outcome, Stats
from recrawl.fetch import FetchAnswer, FetchKind, FetchTime, PageFetcher
from recrawl.run.discovery.hint_documents import (
    DOCUMENT_KEY,
    FEED_SOURCE,
    POLL_SECONDS_MAX,
    POLL_SECONDS_MIN,
    REBUILT_SOURCE,
    SITEMAP_SOURCE,
    DocumentHints,
    SignalQuality,
    add_news,
    apply_polls,
    choose_sample,
    claimed_ms,
    compare_versions,
    count_worth,
    first_of_each,
    news_per_second,
    read_hints,
    read_quality,
    remember_version,
    seconds_to_next_poll,
    seconds_without_price,
    turnover_seconds,
)
from recrawl.run.discovery.limits import DiscoveryCounts, DiscoverySettings
from recrawl.run.discovery.links import read_links
from recrawl.run.discovery.memory import (
    DiscoveryMemory,
    DocumentVersion,
    SiteRecord,
    hash_entries,
)
from recrawl.run.discovery.overlap import (
    SPEAKER_JUDGED_MIN,
    SPEAKER_PRECISION_MIN,
    OtherDocument,
    count_shown,
    count_waiting,
    find_shown,
    is_spare,
    is_still_spare,
    rate_of_others,
    trusted_until,
)
from recrawl.run.discovery.sites import (
    SiteAnswer,
    SiteToAsk,
    ask_sites,
    own_children,
    site_of,
)
from recrawl.run.discovery.traps import remove_session
from recrawl.run.found import Findings, FoundPage, FoundSignal, HasMetadata
from recrawl.shard import PageStatus
from recrawl.signals import DocumentKind
from recrawl.urls import canonical

__all__ = ["FILLING_SHARE", "FILL_FACTOR", "FILL_PAGES_MIN", "Discovery"]

FILL_PAGES_MIN: Final = 200
"""Number of pages that every site may bring before the first fetch, if the budget is large."""
FILL_SECONDS: Final = 2 * 86_400.0
"""Time in which a smaller budget fetches the pages that every site may bring: its equal share."""
FILLING_SHARE: Final = 0.2
"""Share of pages without a first fetch from which on documents are read rarely."""
FILL_FACTOR: Final = 2.0
"""Pages that a site may bring before the first fetch, per page that the other sites bring on
average.  The rest of a larger site is added later, as newcomers with a share of the budget."""

LINKED_PAGES_MIN: Final = 20
"""Number of pages that links of a site may bring at once, while the corpus has other sites."""
ALONE_SHARE: Final = 0.05
"""Pages of other sites, per page of its own, up to which a site has no such limits."""
GROWTH_SHARE: Final = 0.05
"""Share of the budget for the new pages of one site, while the corpus has other sites: as for
newcomers.  A site may also double within 30 days.  Both shrink with the share of its pages that
exist."""

_GROWTH_SECONDS: Final = 30 * 86_400.0
# Of the pages of a site that were fetched, each counts less than the one after it.
_FOUND_DECAY: Final = 0.98
_DAY_MS: Final = 86_400_000
_RETRY_MS: Final = 300_000
_SITES_MAX: Final = 100_000
_LEFT_OUT_MAX: Final = 100_000
_START_DEPTH: Final = 0
# Pages of sitemaps are as far from the start as those that the start page links to.
_SITEMAP_DEPTH: Final = 1
_OK: Final = 200
_NOT_MODIFIED: Final = 304
_GONE: Final = (404, 410)


class Discovery:
    """Finds pages and signals in the answers of a crawl; a `recrawl.run.found.PageFinder`.

    Parameters
    ----------
    corpus
        Corpus of the crawl.  `commit` sets when its sitemaps and feeds are read again; everything
        else is left to the crawl.
    settings
        Limits.
    folder
        Folder for what is remembered; ``discovery`` in the folder of the corpus if None.
    """

    def __init__(
        self,
        corpus: Corpus,
        settings: DiscoverySettings | None = None,
        *,
        folder: Path | None = None,
    ) -> None:
        self.settings = DiscoverySettings() if settings is None else settings
        self.counts = DiscoveryCounts()
        """What was found since this object was made."""
        self._corpus = corpus
        self._poll_seconds: dict[str, float] = {}
        self._left_out: set[str] = set()
        self._without_price: set[str] = set()
        self._memory = DiscoveryMemory(corpus.folder / "discovery" if folder is None else folder)

    def close(self) -> None:
        """Close the store; what was not committed is lost."""
        self._memory.close()

    def commit(self) -> None:
        """Make durable what `take` has remembered: everything that it returned is stored now."""
        if self._poll_seconds:
            apply_polls(self._corpus, self._pace_polls())
        self._poll_seconds = {}
        self._without_price = set()
        self._memory.commit()

    def _pace_polls(self) -> dict[str, float]:
        """Return when documents are read again: rarely while many pages wait for their first fetch.

        News about pages help little as long as others have no copy at all.
        """
        stats = self._corpus.stats()
        n_documents = sum(site.n_documents for site in self._memory.sites.values())
        first = seconds_without_price(stats.budget_per_second, n_documents)
        is_filling = _is_filling(stats)
        return {
            url: max(seconds, first) if is_filling or url in self._without_price else seconds
            for url, seconds in self._poll_seconds.items()
        }

    def kind_of(self, page: HasMetadata) -> FetchKind:
        """Return whether a page of the corpus is a page, a sitemap or a feed."""
        kind = (page.metadata or {}).get(DOCUMENT_KEY)
        if kind == FetchKind.SITEMAP.value:
            return FetchKind.SITEMAP
        return FetchKind.FEED if kind == FetchKind.FEED.value else FetchKind.PAGE

    def is_left_out(self, url: str) -> bool:
        """Return whether a page asked not to be kept, or is a copy, when it was last fetched.

        Parameters
        ----------
        url
            URL of the page.
        """
        return url in self._left_out

    @property
    def n_documents(self) -> int:
        """Number of sitemaps and feeds in the corpus."""
        return sum(site.n_documents for site in self._memory.sites.values())

    # ------------------------------------------------------------------ sites

    def start(self, urls: Sequence[str]) -> Findings:
        """Return the pages that the user gave; their sites are asked next.

        Parameters
        ----------
        urls
            URLs that the user gave; none when an earlier crawl goes on.
        """
        given = [url for url in canonical(urls).url.to_pylist() if url is not None]
        for url in given:
            self._memory.set_link_depth(url, _START_DEPTH)
            origin = _origin_of(url)
            if origin not in self._memory.sites and len(self._memory.sites) < _SITES_MAX:
                self._memory.set_site(origin)
        return Findings(pages=[FoundPage(url) for url in urls])

    def sites_to_ask(self) -> list[SiteToAsk]:
        """Return the sites whose robots.txt should be read now."""
        now_ms = self._corpus.now_ms()
        return [
            SiteToAsk(origin, not site.is_reached)
            for origin, site in self._memory.sites.items()
            if site.next_ask_ms <= now_ms
        ]

    def ask_sites(
        self, fetcher: PageFetcher, sites: Sequence[SiteToAsk], time: FetchTime
    ) -> AsyncGenerator[list[SiteAnswer], None]:
        """Fetch the robots.txt files and the first sitemaps of sites; change nothing.

        Yields the answers in groups, as they come.

        Parameters
        ----------
        fetcher
            Fetcher, which is polite.
        sites
            Sites that `sites_to_ask` returned.
        time
            Clock, and how to wait.
        """
        return ask_sites(fetcher, sites, self.settings, time)

    def take_sites(self, answers: Sequence[SiteAnswer]) -> Findings:
        """Return the sitemaps of sites, and the pages in those that were read.

        Parameters
        ----------
        answers
            Group of answers that `ask_sites` yielded.
        """
        found = Findings()
        now_ms = self._corpus.now_ms()
        rooms = self._fill_rooms(answers)
        for answer in answers:
            before = self._memory.sites.get(answer.origin, SiteRecord())
            if answer.is_reached:
                self._memory.set_site(
                    answer.origin, is_reached=True, n_failures=0, next_ask_ms=now_ms + _DAY_MS
                )
            else:
                wait_ms = min(_RETRY_MS << min(before.n_failures, 10), _DAY_MS)
                n_failures = before.n_failures + 1
                self._memory.set_site(
                    answer.origin, n_failures=n_failures, next_ask_ms=now_ms + wait_ms
                )
            self._take_site(answer, rooms[answer.origin], found)
            if answer.documents:
                # Further pages come at the pace of the budget.
                self._memory.set_site(answer.origin, room=0.0, room_at_ms=now_ms)
        return found

    def _take_site(self, answer: SiteAnswer, room: int, found: Findings) -> None:
        site = {site_of(answer.origin)}
        for document in answer.documents:
            got = document.answer
            name = _canonical(got.url)
            if name is None or not self._add_document(
                got.url, FetchKind.SITEMAP, document.depth, answer.origin, found
            ):
                continue
            version = DocumentVersion(fetched_at_ms=got.fetched_at_ms)
            if document.hints.kind != DocumentKind.INDEX:
                hints = self._own_entries(document.hints, {site_of(name), *site})
                is_kept = self._add_pages(
                    hints, np.arange(len(hints.url)), answer.origin, found, room=room
                )
                room -= int(np.count_nonzero(is_kept))
                version = remember_version(
                    hints, None, fetched_at_ms=got.fetched_at_ms, is_kept=is_kept
                )
            self._memory.set_document(name, version)
            found.outcomes.append(_outcome_of(got))
            self._poll_seconds[name] = 0.0
            self._without_price.add(name)
        # Last, so that they do not take the places of those that were read.
        for url, depth in answer.waiting:
            self._add_document(url, FetchKind.SITEMAP, depth, answer.origin, found)

    # ------------------------------------------------------------------ answers

    def take(self, order: Order, answer: FetchAnswer) -> Findings:
        """Return what an answer leads to.

        Parameters
        ----------
        order
            Order that was fetched.
        answer
            Answer of the fetcher.
        """
        kind = self.kind_of(order)
        if kind != FetchKind.PAGE:
            return self._take_document(order, answer, kind)
        if answer.problem is None and answer.status in (_OK, _NOT_MODIFIED, *_GONE):
            self._count_found(_origin_of(order.url), is_gone=answer.status in _GONE)
        if answer.status != _OK or answer.problem is not None:
            return Findings()
        (depth,) = self._memory.link_depths([order.url])
        if depth != _START_DEPTH and not self.settings.follows_links:
            return Findings()
        return self._take_page(order, answer, _SITEMAP_DEPTH if depth is None else depth)

    def _take_page(self, order: Order, answer: FetchAnswer, depth: int) -> Findings:
        found = Findings()
        page = read_links(answer.body, answer.headers, answer.final_url)
        origin = _origin_of(order.url)
        site = {site_of(order.url)}
        if depth == _START_DEPTH:
            for url, name in page.documents:
                if site_of(url) in site:
                    self._add_document(url, FetchKind(name), 0, origin, found)
        if not self.settings.follows_links:
            return found
        targets = list(page.links)
        self._left_out.discard(order.url)
        if depth > _START_DEPTH:
            # A page that the user gave stays, whatever it says about itself.
            named = _canonical(page.canonical_url) if page.canonical_url else None
            is_copy = named not in (None, order.url) and site_of(named or "") in site
            if is_copy:
                targets.append(page.canonical_url)
            if is_copy or page.is_noindex:
                found.importances[order.url] = 0.0
                if len(self._left_out) < _LEFT_OUT_MAX:
                    self._left_out.add(order.url)
        self._follow(targets, order.url, depth + 1, found)
        return found

    def _follow(self, targets: Sequence[str], found_on: str, depth: int, found: Findings) -> None:
        """Add the pages of the same site that links lead to, within the limits."""
        origin, site = _origin_of(found_on), site_of(found_on)
        urls = [url for url in canonical(targets).url.to_pylist() if url is not None]
        self.counts.refuse("bad_url", len(targets) - len(urls))
        own = list(dict.fromkeys(remove_session(url) for url in urls if site_of(url) == site))
        if not own:
            return
        unseen = [
            url
            for url, known in zip(own, self._memory.link_depths(own), strict=True)
            if known is None
        ]
        if unseen and depth > self.settings.link_depth_max:
            self.counts.refuse("too_deep", len(unseen))
            return
        traps = self._memory.traps(origin)
        room = self._room_of(origin, LINKED_PAGES_MIN) if unseen else 0
        n_before = len(found.pages)
        for url in unseen:
            if len(found.pages) - n_before >= room:
                self.counts.refuse("too_fast")
                continue
            reason = traps.admit(
                url, found_on, n_linked_max=self.settings.linked_pages_per_site_max
            )
            if reason is not None:
                self.counts.refuse(reason)
                continue
            self._memory.set_link_depth(url, depth)
            self.counts.n_pages += 1
            found.pages.append(FoundPage(url))
        if unseen:
            self._memory.note_traps(origin)
            self._use_room(origin, room, len(found.pages) - n_before)

    # ------------------------------------------------------------------ documents

    def _add_document(
        self,
        url: str,
        kind: FetchKind,
        depth: int,
        origin: str,
        found: Findings,
    ) -> bool:
        """Add a sitemap or feed to the corpus; return whether it is within the limits.

        It may name pages of its own host, and of the sites whose robots.txt names it.
        """
        name = _canonical(url)
        if name is None:
            self.counts.refuse("bad_url")
            return False
        if self._memory.document(name) is not None:
            return True
        record = self._memory.sites.get(origin, SiteRecord())
        if record.n_documents >= self.settings.documents_per_site_max:
            self.counts.refuse("too_many_documents")
            return False
        if depth > self.settings.index_depth_max:
            self.counts.refuse("too_deep")
            return False
        metadata: dict[str, Any] = {DOCUMENT_KEY: kind.value, "origin": origin}
        if depth:
            metadata["depth"] = depth
        found.pages.append(FoundPage(url, metadata=metadata))
        self._memory.set_site(origin, n_documents=record.n_documents + 1)
        self._note_document(origin, name, kind)
        # An empty version marks it as known until it has been read.
        self._memory.set_document(name, DocumentVersion(fetched_at_ms=0))
        self.counts.n_documents += 1
        return True

    def _note_document(self, origin: str, url: str, kind: FetchKind) -> None:
        n_max = self.settings.documents_per_site_max
        self._memory.add_site_document(origin, url, kind.value, n_max)

    def _others_of(self, origin: str, url: str) -> list[OtherDocument]:
        """Return the other documents of a site that have been read."""
        found = []
        for name, kind in self._memory.documents_of(origin).items():
            version = self._memory.document(name) if name != url else None
            if version is not None and version.fetched_at_ms:
                found.append(OtherDocument(name, kind == FetchKind.FEED.value, version))
        return found

    def _wake_spares(self, others: Sequence[OtherDocument], now_ms: int) -> None:
        """Read documents again of which the others no longer say enough.

        Parameters
        ----------
        others
            Documents of the site that can be read.
        now_ms
            Instant of now.
        """
        for spare in others:
            rest = [one for one in others if one.url != spare.url]
            if spare.version.is_spare and not is_still_spare(
                spare.version, rate_of_others(rest, now_ms)
            ):
                # Without a rate it is not woken again before it has been read.
                self._memory.set_document(spare.url, replace(spare.version, spare_rate=0.0))
                self._poll_seconds[spare.url] = POLL_SECONDS_MIN

    def _miss_document(self, url: str, origin: str, now_ms: int, *, is_gone: bool) -> None:
        """Let other documents of a site speak for one that cannot be read."""
        version = self._memory.document(url)
        if version is None or not version.true_rate:
            return
        others = self._others_of(origin, url)
        if is_gone:
            self._memory.set_document(url, replace(version, true_rate=0.0))
        elif version.trusted_until_ms > now_ms:
            return
        self._wake_spares(others, now_ms)

    def _take_document(self, order: Order, answer: FetchAnswer, kind: FetchKind) -> Findings:
        found = Findings()
        metadata = order.metadata or {}
        origin = str(metadata.get("origin") or _origin_of(order.url))
        if answer.problem is not None or answer.status not in (_OK, _NOT_MODIFIED):
            is_gone = answer.problem is None and answer.status in _GONE
            self._miss_document(order.url, origin, answer.fetched_at_ms, is_gone=is_gone)
            return found
        self._note_document(origin, order.url, kind)
        others = self._others_of(origin, order.url)
        before = self._memory.document(order.url)
        if before is not None and before.fetched_at_ms == 0:
            before = None
        seconds = (answer.fetched_at_ms - (before or _NEVER).fetched_at_ms) / 1000
        n_sent = self._memory.sites.get(origin, SiteRecord()).n_sent
        quality = read_quality(self._corpus, order.url, (before or _NEVER).sample_url, n_sent)
        source = FEED_SOURCE if kind == FetchKind.FEED else SITEMAP_SOURCE
        found.changed = False
        if answer.status == _NOT_MODIFIED:
            if before is None:
                return found  # another worker has read it, or the memory was lost
            version = before
            news = add_news(version.news, seconds=seconds)
            version = replace(version, fetched_at_ms=answer.fetched_at_ms, news=news)
            # How many entries a feed shows is not remembered: its pace may halve.
            turnover = 2 * quality.poll_seconds if source == FEED_SOURCE else math.inf
            self._finish(order.url, version, quality, source, others, turnover=turnover)
            return found
        hints = read_hints(answer.body, self.settings.entries_per_document_max)
        if hints.kind == DocumentKind.NOTHING:
            # A page in its place, such as a soft 404: it says nothing about the other pages.
            self._miss_document(order.url, origin, answer.fetched_at_ms, is_gone=True)
            self._poll_seconds[order.url] = POLL_SECONDS_MAX
            return found
        sites = {site_of(order.url), site_of(origin)}
        n_repeated = 0
        if hints.kind == DocumentKind.INDEX:
            depth = int(metadata.get("depth") or 0) + 1
            n_before = len(found.pages)
            for child in own_children(hints.url, order.url, sites):
                self._add_document(child, FetchKind.SITEMAP, depth, origin, found)
            n_new = len(found.pages) - n_before
            version = replace(before or _NEVER, fetched_at_ms=answer.fetched_at_ms)
        else:
            hints = self._own_entries(hints, sites)
            version, n_new, n_repeated = self._take_entries(
                hints, before, answer.fetched_at_ms, origin, quality, source, others, found
            )
            others = self._compare_waiting(version, before, source, others)
        n_signals = sum(one.source != REBUILT_SOURCE for one in found.signals)
        n_together = len(found.signals) - n_signals
        if n_together and not quality.is_trusted_together():
            n_together = 1  # dates that move together are one event
        found.changed = before is None or bool(n_new or found.signals)
        if before is not None:
            n_looked_at, n_worth = count_worth(self._corpus, [one.url for one in found.signals])
            news = add_news(
                version.news,
                seconds=seconds,
                n_signals=n_signals - n_repeated,
                n_together=n_together,
                n_pages=n_new,
                n_repeated=n_repeated,
                n_looked_at=n_looked_at,
                n_worth=n_worth,
            )
            version = replace(version, news=news)
        if found.signals:
            version = replace(version, sample_url=found.signals[0].url)
        turnover = math.inf
        if source == FEED_SOURCE:
            turnover = turnover_seconds(version.news, len(hints.url))
        self._finish(
            order.url,
            version,
            quality,
            source,
            others,
            turnover=turnover,
            ttl_seconds=hints.ttl_seconds,
        )
        return found

    def _take_entries(
        self,
        hints: DocumentHints,
        before: DocumentVersion | None,
        fetched_at_ms: int,
        origin: str,
        quality: SignalQuality,
        source: str,
        others: Sequence[OtherDocument],
        found: Findings,
    ) -> tuple[DocumentVersion, int, int]:
        """Add new pages and signals of a document.

        Returns what to remember, the number of new entries, and the number of signals that other
        documents had sent before.
        """
        start = before or DocumentVersion(fetched_at_ms=fetched_at_ms)
        news = compare_versions(hints, start)
        is_kept = self._add_pages(hints, news.new, origin, found)
        version = remember_version(hints, before, fetched_at_ms=fetched_at_ms, is_kept=is_kept)
        if before is None:
            return version, 0, 0
        is_feed = source == FEED_SOURCE
        rows, n_new = news.later, 0
        if is_feed:
            # A feed shows pages because they are new or were edited.
            rows = np.union1d(rows, news.new[is_kept[news.new]])
        else:
            # Entries that found no room before are not news.
            n_new = max(int(news.new.size) - before.n_left_out, 0)
        if not self.settings.sends_signals:
            return version, n_new, 0
        if news.is_together and not is_feed:
            source = REBUILT_SOURCE
            if not quality.is_trusted_together():
                n_all = rows.size
                rows = choose_sample(rows, hints, fetched_at_ms)
                self.counts.n_signals_held_back += int(n_all - rows.size)
        n_repeated = 0
        if source != REBUILT_SOURCE:
            version, n_repeated = self._compare_news(hints.take(rows), version, others)
        claimed = claimed_ms(hints, fetched_at_ms)
        found.signals += [
            FoundSignal(hints.url[row], source, fetched_at_ms, int(claimed[row]))
            for row in rows.tolist()
        ]
        self.counts.n_signals += int(rows.size)
        n_sent = self._memory.sites.get(origin, SiteRecord()).n_sent
        # How many of the others count shows what this document is worth by itself.
        n_sent = n_sent | {source: n_sent.get(source, 0) + int(rows.size) - n_repeated}
        self._memory.set_site(origin, n_sent=n_sent)
        return version, n_new, n_repeated

    def _compare_news(
        self, news: DocumentHints, version: DocumentVersion, others: Sequence[OtherDocument]
    ) -> tuple[DocumentVersion, int]:
        """Note how many news others show, too; return how many they showed before."""
        if not others or not news.url:
            return version, 0
        trusted = [one for one in others if one.is_trusted(version.fetched_at_ms)]
        hashes = hash_entries(news.url)
        claimed = (news.earliest_ms // 1_000).astype(np.uint32)
        is_repeated = np.zeros(hashes.size, np.bool_)
        for one in trusted:
            is_repeated |= find_shown(hashes, claimed, one.version)[1]
        version = version.add_compared(*count_shown(hashes, claimed, trusted or others))
        return version, int(np.count_nonzero(is_repeated))

    def _compare_waiting(
        self,
        version: DocumentVersion,
        before: DocumentVersion | None,
        source: str,
        others: Sequence[OtherDocument],
    ) -> list[OtherDocument]:
        """Note how many news of other documents a version shows, too; return these documents."""
        is_other_trusted = any(one.is_trusted(version.fetched_at_ms) for one in others)
        if before is None or (is_other_trusted and not before.true_rate):
            return list(others)
        found = []
        for other in others:
            n_shown, n_compared = count_waiting(
                other, version, before.fetched_at_ms, is_feed=source == FEED_SOURCE
            )
            known = other.version.add_compared(n_shown, n_compared)
            if n_compared:
                self._memory.set_document(other.url, known)
            found.append(other._replace(version=known))
        return found

    def _finish(
        self,
        url: str,
        version: DocumentVersion,
        quality: SignalQuality,
        source: str,
        others: Sequence[OtherDocument],
        *,
        turnover: float,
        ttl_seconds: float = 0.0,
    ) -> None:
        """Remember a version of a document, and decide when to read it again."""
        if quality.price is None:
            self._memory.set_document(url, version)
            self._poll_seconds[url] = ttl_seconds
            self._without_price.add(url)
            return
        n_pages = version.hashes.size
        is_feed = source == FEED_SOURCE
        if is_feed:
            # It lists a few pages now, but speaks of all.
            n_pages = max(n_pages, self._corpus.n_pages_of_host(_host_of(_origin_of(url))))
        now_ms = version.fetched_at_ms
        others_rate = rate_of_others(others, now_ms)
        is_judged = quality.is_judged(source)
        whole = version.news.include_repeated()
        seconds = seconds_to_next_poll(
            news_per_second(version.news if others_rate else whole, quality, source),
            quality.price,
            # An index lists no pages; what it is worth is not compared with theirs.
            n_pages=quality.importance * n_pages or math.inf,
            # Until it is known, good sources must be able to show what they are worth.
            precision=quality.precision_of(source) if is_judged else 1.0,
            turnover_seconds=turnover,
            ttl_seconds=ttl_seconds,
        )
        if version.hashes.size:
            true_rate = 0.0
            is_right = (
                quality.n_judged.get(source, 0.0) >= SPEAKER_JUDGED_MIN
                and quality.precision_of(source) >= SPEAKER_PRECISION_MIN
            )
            if is_right and (version.is_spare or seconds < POLL_SECONDS_MAX):
                true_rate = news_per_second(whole, replace(quality, counted_share={}), source)
            version = replace(version, true_rate=true_rate)
            spare_rate = 0.0
            if is_spare(version, others_rate, is_feed=is_feed):
                spare_rate, seconds = others_rate, POLL_SECONDS_MAX
            version = replace(version, spare_rate=spare_rate)
            version = replace(version, trusted_until_ms=trusted_until(now_ms, seconds))
        self._memory.set_document(url, version)
        self._poll_seconds[url] = seconds
        self._wake_spares([*others, OtherDocument(url, is_feed, version)], now_ms)

    def _own_entries(self, hints: DocumentHints, sites: Collection[str]) -> DocumentHints:
        """Return the entries that a document may name, with canonical URLs, each once."""
        urls = canonical(hints.url).url.to_pylist()
        self.counts.refuse("bad_url", sum(url is None for url in urls))
        own = [url if url is not None and site_of(url) in sites else None for url in urls]
        n_other = sum(url is None for url in own) - sum(url is None for url in urls)
        self.counts.refuse("other_site", n_other)
        rows = first_of_each(own, hints.earliest_ms)
        return hints._replace(url=own).take(rows)  # type: ignore[arg-type]  # rows without None

    def _add_pages(
        self,
        hints: DocumentHints,
        rows: NDArray[np.int64],
        origin: str,
        found: Findings,
        *,
        room: int | None = None,
    ) -> NDArray[np.bool_]:
        """Add the pages of new entries; return which entries of the document are remembered.

        Those beyond the limit are not: the next version shows them as new again.
        """
        record = self._memory.sites.get(origin, SiteRecord())
        left = max(self.settings.pages_per_site_max - record.n_pages, 0)
        if room is None:
            room = self._room_of(origin, FILL_PAGES_MIN) if rows.size else 0
            self._use_room(origin, room, min(rows.size, room))
        n = min(rows.size, max(room, 0))
        if n > left:
            self.counts.refuse("too_many_pages", n - left)
            n = left
        is_kept = np.ones(len(hints.url), np.bool_)
        is_kept[rows[n:]] = False
        found.pages += [FoundPage(hints.url[row]) for row in rows[:n].tolist()]
        if n:
            self._memory.set_site(origin, n_pages=record.n_pages + n)
            self.counts.n_pages += n
        return is_kept

    def _fill_rooms(self, answers: Sequence[SiteAnswer]) -> dict[str, int]:
        """Return how many pages each site may bring when it is asked for the first time.

        A single site may bring everything.  One that is much larger than the others would take
        their share of the first fetches.
        """
        sizes = {answer.origin: _n_entries(answer) for answer in answers}
        hosts = {_host_of(origin) for origin in sizes}
        n_known = self._corpus.n_pages - sum(map(self._corpus.n_pages_of_host, hosts))
        stats = self._corpus.stats()
        n_hosts = max(stats.n_groups - len(hosts), 0) if n_known > 0 else 0
        total = sum(sizes.values()) + max(n_known, 0)
        n_first = FILL_PAGES_MIN
        if stats.budget_per_second and _is_filling(stats):
            # Later, such pages would be newcomers; now they take turns with those of the others.
            fair = FILL_SECONDS * stats.budget_per_second / max(n_hosts + len(sizes), 1)
            n_first = int(min(max(fair, LINKED_PAGES_MIN), FILL_PAGES_MIN))
        rooms = {}
        for origin, size in sizes.items():
            n_others = n_hosts + sum(1 for one in sizes if one != origin and sizes[one])
            mean = (total - size) / max(n_others, 1)
            is_alone = n_others == 0
            rooms[origin] = size if is_alone else max(n_first, round(FILL_FACTOR * mean))
        return rooms

    def _room_of(self, origin: str, n_first: int) -> int:
        """Return how many new pages a site may bring now; ``n_first`` if it has brought none yet.

        A site that is nearly alone has no limit: there is little else to protect.
        """
        n_own = self._corpus.n_pages_of_host(_host_of(origin))
        budget = self._corpus.stats().budget_per_second
        if not budget or self._corpus.n_pages - n_own <= ALONE_SHARE * n_own:
            return self.settings.pages_per_site_max
        site = self._memory.sites.get(origin, SiteRecord())
        if not site.room_at_ms:
            return n_first
        seconds = max(self._corpus.now_ms() - site.room_at_ms, 0) / 1000
        pace = max(GROWTH_SHARE * budget, n_own / _GROWTH_SECONDS) * site.found_share
        return int(min(site.room + pace * seconds, max(FILL_PAGES_MIN, n_own)))

    def _count_found(self, origin: str, *, is_gone: bool) -> None:
        """Note whether a page of a site exists; nothing is written for a site without dead ones."""
        site = self._memory.sites.get(origin)
        if site is None or not (is_gone or site.n_gone):
            return
        self._memory.set_site(
            origin,
            n_found=_FOUND_DECAY * site.n_found + (not is_gone),
            n_gone=_FOUND_DECAY * site.n_gone + is_gone,
        )

    def _use_room(self, origin: str, room: int, n: int) -> None:
        if n:
            self._memory.set_site(origin, room=float(room - n), room_at_ms=self._corpus.now_ms())


_NEVER: Final = DocumentVersion(fetched_at_ms=0)


def _is_filling(stats: Stats) -> bool:
    """Return whether many pages of a corpus wait for their first fetch."""
    n_new = stats.pages_by_status.get(PageStatus.NEW.name.lower(), 0)
    return n_new > FILLING_SHARE * stats.n_pages


def _n_entries(answer: SiteAnswer) -> int:
    is_map = [one.hints.kind != DocumentKind.INDEX for one in answer.documents]
    return sum(len(one.hints.url) for one, ok in zip(answer.documents, is_map, strict=True) if ok)


def _host_of(origin: str) -> str:
    return origin.partition("://")[2]


def _outcome_of(answer: FetchAnswer) -> Outcome:
    return Outcome(
        url=answer.url,
        status=answer.status,
        changed=True,
        etag=answer.etag,
        last_modified=answer.last_modified,
        fetched_at_ms=answer.fetched_at_ms,
    )


def _canonical(url: str) -> str | None:
    found: str | None = canonical([url]).url[0].as_py()
    return found


def _origin_of(url: str) -> str:
    """Return scheme, host and port of a canonical URL."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}"
