"""Signals fig. 1: how good signals are, and how good a shard finds them."""
