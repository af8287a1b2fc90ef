"""Declares the tables of a database."""
