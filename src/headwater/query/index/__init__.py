"""The index over all conditions: features of an item lead to the queries it may match."""
