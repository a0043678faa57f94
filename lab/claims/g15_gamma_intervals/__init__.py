"""Bias of the estimators when changes are not Poisson."""
