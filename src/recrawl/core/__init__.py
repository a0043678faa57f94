"""The mathematics of recrawl: estimates, beliefs, values and prices, as functions on arrays.

Everything is in SI units: times in seconds, rates per second.  Ratios and probabilities are
0 to 1.  An importance is a weight or requests per second; a value is an importance times
seconds.  Nothing here reads a clock, draws a random number or does I/O.

The packages, in the order in which evidence becomes a decision:

- `recrawl.papers.change_rate`: how often a page changes, estimated from polls;
- `recrawl.core.belief`: the same as a probability distribution of four bytes a page;
- `recrawl.core.signal_quality`: what a sitemap, feed or ping is worth, and learning it;
- `recrawl.core.divergence`: how much of a copy is wrong, and how that grows;
- `recrawl.core.requests`: importance learned from requests;
- `recrawl.core.value`: what fetching a page now is worth;
- `recrawl.core.price`: the value above which a fetch is worth its share of the budget.
"""
