"""Compare the outcomes of fetches with the stored pages, and log the verdicts."""
