"""Hits → the world: feed documents, hub, mail, chat, web hooks."""
