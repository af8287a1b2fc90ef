"""The command line itself: shared options, input, output and logs."""
