"""Shows on a terminal what commands return."""
