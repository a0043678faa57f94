"""Estimators and policies of the papers that nodes do not run, for study and as baselines.

Folders are named as in `recrawl.core`, which holds the mathematics that nodes run.
"""
