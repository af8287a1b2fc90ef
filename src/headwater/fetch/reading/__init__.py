"""Documents and pages of strangers, read within limits and in worker processes."""
