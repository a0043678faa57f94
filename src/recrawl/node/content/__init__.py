"""Bodies of answers in a node: read them, judge them by what is stored, and keep what was learned.

`recrawl.content` is imported when the first body arrives, so a corpus without bodies does not load
an HTML parser.
"""
