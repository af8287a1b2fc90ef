"""The same pure code under a virtual clock: worlds, traces, scores, experiments, feed farm."""
