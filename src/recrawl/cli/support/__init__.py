"""What several commands share: options, corpora, input, output."""
