"""Functions that the pages and the API share."""
