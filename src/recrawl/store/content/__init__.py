"""What a store keeps of the text of pages: memories of pages and hosts, passages of changes.

Only corpora that are given bodies, texts or observations have any of this.
"""
