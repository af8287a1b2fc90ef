"""The pages and APIs of the server."""
