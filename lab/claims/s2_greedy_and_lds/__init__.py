"""S-2: with all rates known, greedy fetching is as good as the best schedule there is."""
