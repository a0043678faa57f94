"""Notices of sites that pages have changed, which become signals."""
