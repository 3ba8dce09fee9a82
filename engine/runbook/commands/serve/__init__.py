"""The HTTP side of ``runbook serve``: who may do what, the pages, the API, and the streams of events."""
