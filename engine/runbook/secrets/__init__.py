"""Secrets: the names and texts that indicate them, the forms in which they are written, and the code that masks
them.
"""
