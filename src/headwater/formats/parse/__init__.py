"""Reads RSS, RDF, Atom, JSON Feed and CDF into a Document."""
