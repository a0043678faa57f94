"""Tables of other programs (CSV, JSON lines, Parquet) as columns of ours."""
