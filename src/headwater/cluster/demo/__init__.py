"""A whole cluster on one machine, with an audit of what it stored."""
