"""Bias and variance of the estimators that know when a page last changed."""
