"""Text and passages of bodies: character sets, formats, words and hashes."""
