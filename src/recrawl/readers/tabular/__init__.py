"""Readers of tables: CSV, JSON lines and Parquet."""
