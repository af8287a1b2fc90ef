"""One file per paper's strategies."""
