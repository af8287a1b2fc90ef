"""Simulators and their measures: cycles, lossless polling, replay, bounds."""
