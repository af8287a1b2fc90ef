"""One module for each group of commands; a command returns a value."""
