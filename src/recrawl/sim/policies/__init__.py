"""Policies that decide what to fetch, for comparison on simulated webs."""
