"""Longevity fig. 6: offline policies told about fragments against policies told about pages."""
