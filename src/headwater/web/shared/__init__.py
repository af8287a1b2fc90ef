"""Code that pages and the API share."""
