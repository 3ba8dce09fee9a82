"""The simulated training pipeline of a lab host: its three parts, their files and their faults."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

from runbook.shell import program

PIPELINES: Mapping[str, str] = MappingProxyType(
    {
        "pipeline": "Inference server, orchestrator and trainer run in /run/lab/workspace/pipeline; batches arrive.",
        "pipeline_ended": "Such a pipeline, but no part of it runs.",
        "inference_died": "A trainer waits for batches: the inference server died when GPU memory ran out.",
        "inference_sick": "A trainer waits for batches: the inference server reports that it is unhealthy.",
        "no_model": "A trainer waits for batches: the inference server has no model.",
        "orchestrator_died": "A trainer waits for batches: the orchestrator died.",
        "no_environment": "A trainer waits for batches: the orchestrator did not find its environment.",
        "wrong_address": "A trainer waits for batches: the orchestrator has a wrong address of the inference server.",
        "started_early": "A trainer waits for batches: the orchestrator started before the server, and gave up.",
        "idle": "A trainer waits for batches: all parts run, but the orchestrator writes nothing.",
        "unseen": "A trainer waits for batches in a different directory from the one that they are written to.",
        "outputs_read_only": "A trainer waits for batches: the output directory is mounted read-only.",
        "outputs_missing": "A trainer waits for batches: the output directory does not exist.",
        "rollouts_read_only": "A trainer waits for batches: the orchestrator cannot write to its output directory.",
        "trainer_died": "The trainer of a pipeline died: the weights that it starts from do not exist.",
    }
)
"""Fault to sentence; each of them alone makes a pipeline."""

PIPELINE = program(__package__, "pipeline")


def files_for(faults: Iterable[str]) -> Mapping[str, str]:
    """File to text: what a lab host with *faults* is given of a pipeline."""
    if not PIPELINES.keys() & set(faults):
        return {}
    return {"pipeline": PIPELINE, "parts": (Path(__file__).parent / "pipeline_parts.py").read_text()}
