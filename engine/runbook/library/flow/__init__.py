"""Actions that wait, or show a text to a person."""
