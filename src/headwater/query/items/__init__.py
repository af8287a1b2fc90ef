"""Items as queries see them: words, values, origin and language."""
