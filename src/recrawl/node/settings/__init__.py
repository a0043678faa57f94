"""Settings of pages, URL patterns and hosts, as events for the log."""
