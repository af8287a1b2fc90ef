"""Tests run the sources: doctests are found there, and what fails has a line. `tests/test_native.py` runs those of
reading and fetching once more as compiled."""

import os

os.environ.setdefault("HEADWATER_COMPILED", "no")
