"""The configuration of a corpus: sections, values and their descriptions."""
