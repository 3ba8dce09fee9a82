"""The versions of the schema ``runbook``, for Alembic."""
