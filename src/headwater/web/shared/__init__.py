"""What pages and the API both use."""
