"""The Google Reader API.

FreshRSS' server is what clients are written against; docs/greader.md says what each of them needs.
"""
