"""The default strategy: refresh a feed when that is worth the price."""
