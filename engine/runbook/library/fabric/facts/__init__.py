"""What NVLink says of itself."""
