"""Very large hosts: their pages are in several partitions, which take turns at fetching."""
