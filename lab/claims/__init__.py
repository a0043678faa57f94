"""One folder for each claim of the papers: what it says, how it is measured, what was found."""
