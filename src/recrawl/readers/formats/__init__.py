"""One module per file format that recrawl reads."""
