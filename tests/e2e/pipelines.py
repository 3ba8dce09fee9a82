"""What the playbooks of S2 are told of the pipelines of the lab."""

from __future__ import annotations

import json

PLACE = "/run/lab/workspace/pipeline"

HANG = {
    "run_dir": f"{PLACE}/outputs/wordle",
    "trainer_log": json.dumps([f"{PLACE}/logs/trainer.log"]),
    "orchestrator_log": json.dumps([f"{PLACE}/logs/orchestrator.log"]),
    "inference_log": json.dumps([f"{PLACE}/logs/inference.log"]),
    "orch_config": f"{PLACE}/orch.toml",
    "outputs": f"{PLACE}/outputs",
    "url": "http://inference:8000",
    "watch": "1s",
}


def options(inputs: dict[str, str], **more: str) -> tuple[str, ...]:
    """*inputs*, with *more* of them or others, as words of a command line."""
    return tuple(word for name, it in {**inputs, **more}.items() for word in ("-e", f"{name}={it}"))
