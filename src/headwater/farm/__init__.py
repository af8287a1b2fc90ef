"""An HTTP server full of feeds that publish by a seed and misbehave on demand."""
