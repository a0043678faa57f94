"""How fresh each budget would keep a corpus, and what a target would cost."""
