"""The papers' claims, the league of policies and what learning buys, run on the shipped code."""
