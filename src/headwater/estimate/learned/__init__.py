"""Holds the learned forecast: the memory of each feed, the inputs of the network, the network and its learning."""
