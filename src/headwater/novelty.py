"""Old state + outcome + now → what is new, what was lost, what to write. Pure."""
