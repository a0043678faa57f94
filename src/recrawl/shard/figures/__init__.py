"""Sums over the pages of a shard, for figures of its present state."""

from recrawl.shard.figures.page_sums import PAGES_SUMMED_MAX, PageSums, sum_pages

__all__ = ["PAGES_SUMMED_MAX", "PageSums", "sum_pages"]
