"""The JSON API under /api/v1: one module per noun, each endpoint declared by the signature of its handler."""
