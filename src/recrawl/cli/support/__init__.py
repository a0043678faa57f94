"""Code that several commands share: options, opening a corpus, input, output."""
