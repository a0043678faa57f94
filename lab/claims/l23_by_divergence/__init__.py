"""Longevity §2.3: what comes of fetching the copies that diverge most."""
