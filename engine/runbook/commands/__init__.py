"""The commands, and the code that connects the other packages: the only package that names concrete plugins."""
