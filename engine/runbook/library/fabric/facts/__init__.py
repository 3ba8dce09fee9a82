"""NVLink, as it describes itself."""
