"""What polls hide: one history at three polling rates (Prior fig. 1)."""
