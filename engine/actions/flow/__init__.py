"""Actions that wait, or tell a person something."""
