"""Reading: from the bytes of a feed to a Document."""
