"""Standing queries: matching, back-fill, demand and explanations."""
