"""One HTTP request: guarded, paced, bounded and redirected."""
