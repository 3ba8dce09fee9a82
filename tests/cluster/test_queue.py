"""The queue: a shard is handed out once, and a task that has failed is not tried again."""

from __future__ import annotations

from runbook.cluster.queue import queue_of


def test_no_task_is_tried_again():
    """Mutant: a task with ``retry=True``.  A write would be sent a second time by somebody who does not know of the first."""
    app = queue_of("berlin", {"host": "/nonexistent"}, lambda _: None)
    assert {"probe", "apply"} <= app.tasks.keys()
    assert [name for name in ("probe", "apply") if app.tasks[name].retry_strategy is not None] == []
    assert {app.tasks[name].queue for name in ("probe", "apply")} == {"berlin"}
