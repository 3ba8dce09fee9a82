"""Text to values: YAML with places, schema, templates, the loader."""
