"""Helpers that tests of several folders share."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
