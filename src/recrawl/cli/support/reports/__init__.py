"""Reports that commands print or write: comparisons of rules, and plans."""
