"""Describes a trace: activity, daily shapes, habits, subjects, duplicates."""
