"""Estimators and policies of the papers that no node runs: for study, the lab and baselines.

Folders are named as in `recrawl.core`, which holds what a node computes.
"""
