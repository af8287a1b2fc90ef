"""The estimators, one file per paper."""
