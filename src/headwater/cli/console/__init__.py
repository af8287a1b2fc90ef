"""The command line itself: options, input, output and logs."""
