"""The strategy `value`: it refreshes a feed when that is worth the price."""
