"""bytes ⇄ Document: rss, atom, rdf, json feed, cdf; opml; dates; html cleaning. Pure."""
