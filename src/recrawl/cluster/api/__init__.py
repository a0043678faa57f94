"""One API on every worker: any of them takes any request, and forwards rows to their owners."""
