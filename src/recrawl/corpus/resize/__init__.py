"""Change the number of partitions of a corpus."""
