"""The cost of polling a page whose period is known (Cost figs 1 to 4)."""
