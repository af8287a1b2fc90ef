"""The feed farm: a real HTTP server full of feeds that publish by a seed, and misbehave when asked to."""
