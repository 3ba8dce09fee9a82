"""Recognise what the author meant by a mistake, so that each mistake gives one message."""
