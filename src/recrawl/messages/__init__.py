"""What a corpus and its users exchange: orders, outcomes, results of calls, changes, statistics.

Plain values without compiled code, so that `recrawl.client` starts quickly.
"""
