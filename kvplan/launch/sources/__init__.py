"""One module a format that launches are written in, and the parsers that they share."""
