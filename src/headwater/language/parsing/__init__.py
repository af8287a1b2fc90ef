"""Turns the text of a script into statements: lexer, cursor, and one module per part of the grammar."""
