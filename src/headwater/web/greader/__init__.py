"""Serves the Google Reader API to reader apps.

Clients are written against FreshRSS, so FreshRSS decides where Google's API left things open. docs/greader.md lists the
clients and what each of them needs.
"""
