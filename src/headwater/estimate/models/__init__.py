"""One file per paper's estimators."""
