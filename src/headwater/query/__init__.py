"""Items × standing queries → hits: index, windows, joins. Pure."""
