"""Bias and variance of the estimators that only know whether a page changed."""
