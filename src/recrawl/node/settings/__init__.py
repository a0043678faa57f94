"""What owners set for pages, URL patterns and hosts, as events for the log."""
