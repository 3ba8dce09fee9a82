"""``python -m engine`` is ``runbook``."""

from engine.cli import main

main()
