"""What each part of learning adds to freshness."""
