"""The parts of the experiment `online`: shaped feeds, errors, a changing feed, kept models, two_steps."""
