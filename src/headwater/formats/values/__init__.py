"""Reads the values inside feeds: text, HTML, dates, addresses, people, languages, encodings."""
