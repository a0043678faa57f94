"""What all pages of the dashboard share: templates, headers, files, and reading of a corpus."""
