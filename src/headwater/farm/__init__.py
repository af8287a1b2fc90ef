"""A real HTTP server full of feeds that publish by a seed and misbehave on demand, for tests, benchmarks and the demo."""
