"""The strategy `value`, the server's default: it refreshes a feed when that is worth the price."""
