"""The log of a training: read back as far as there is no cause, and what is a cause, a consequence or an end."""

from __future__ import annotations

import pytest

from runbook.errors import ConfigError
from runbook.language.arguments import build
from runbook.library.jobs import job_log
from runbook.library.jobs.facts.job_log_signs import ENDS, SIGNS, SOFT_ENDS
from runbook.library.jobs.facts.process_ends import CODE
from runbook.values.types import Unknown
from tests.support.probe_driver import SHELLS, Here, drive
from tests.support.real_processes import each
from tests.support.tables import every_row

OOM = "[rank12]: torch.OutOfMemoryError: CUDA out of memory."
STUCK = "[rank0]: ProcessGroupNCCL's watchdog got stuck for 480 seconds"
STEP = "step {} loss 2.0"
STACK = "frame #{}: c10d::ProcessGroupNCCL::watchdogHandler() + 0xc80 (0x7fbd in libtorch_cuda.so)"


def read(log, shell="dash", **values):
    args = build(job_log.Args, {"files": [str(log)], **values})
    return drive(job_log.probe(args), Here(shell=SHELLS[shell]))


def told(*lines, **values):
    return drive(job_log.probe(job_log.Args(text="\n".join(lines), **values)), Here())


def stacks(megabytes):
    return [STACK.format(number) for number in range(megabytes * (1 << 20) // len(STACK))]


@pytest.mark.parametrize("shell", each(SHELLS))
def test_a_cause_far_behind_consequences_is_found(tmp_path, shell):
    """Mutants: no reading back; the piece after the first read from the end again."""
    log = tmp_path / "trainer.log"
    log.write_text("\n".join([STEP.format(1), OOM, *stacks(3), STUCK, ""]))
    state = read(log, shell=shell)
    assert state.found == ("gpu_memory", "watchdog")
    assert [sign.rank for sign in state.ranks] == ["12"]
    assert (state.followers, state.unread) == (1, 0)


def test_a_line_that_is_cut_between_two_pieces_is_read_whole(tmp_path):
    """Mutant: the pieces are not put together."""
    log = tmp_path / "trainer.log"
    end = "\n".join([*stacks(1), STUCK, ""])
    half = 1 << 20
    end = end[len(end) - half + len(OOM) // 2 :]
    log.write_text(f"{STEP.format(1)}\n{OOM}\n{end}")
    assert read(log).found == ("gpu_memory", "watchdog")


def test_what_was_not_read_is_said(tmp_path, monkeypatch):
    """Mutant: unread is always 0."""
    monkeypatch.setattr(job_log, "BACK", 2)
    log = tmp_path / "trainer.log"
    log.write_text("\n".join([OOM, *stacks(3), STUCK, ""]))
    state = read(log)
    assert state.found == ("watchdog",)
    assert state.unread == log.stat().st_size - (2 << 20)


def test_a_log_without_any_sign_is_not_read_back(tmp_path):
    """An error of long ago explains no stop of today.  Mutant: reading back whatever was found."""
    log = tmp_path / "trainer.log"
    log.write_text("\n".join([OOM, *(f"quiet line {number}" for number in range(600)), ""]))
    assert read(log).found == ()


def test_an_error_that_the_training_survived_is_no_cause():
    steps = [STEP.format(number) for number in range(3)]
    assert told(OOM, *steps, STUCK).found == ("watchdog",)
    assert told(OOM, *steps[:2], STUCK).found[0] == "gpu_memory"


def test_an_error_after_a_consequence_only_follows_from_it():
    """Mutant: a generic error is as good as a cause wherever it stands."""
    error = "RuntimeError: something"
    assert told(error, STUCK).found[0] == "error"
    assert told(STUCK, error).found[0] == "watchdog"
    assert told("request timed out, retrying", STUCK).found[0] == "watchdog"
    assert told("request timed out, retrying").found[0] == "timeout"


@every_row(
    "line",
    [
        "Sequence group 7 is preempted by PreemptionMode.RECOMPUTE mode", "got 15 samples, received 2 batches", "rollout_timeout: 600",
        "found inference server at node-2", "Training started successfully", "Finished training epoch 3", "Epoch completed in 35 s",
        "step 3 loss = nan",
    ],
)  # fmt: skip
def test_words_of_every_day_are_no_sign(line):
    assert told(line).found == ()


@every_row(
    "line",
    [
        "job has not timed out", "finished without errors", "there was no timeout waiting", "worker was never killed by signal 9",
        "step 1: nothing was not preempted", "Bypassing signal SIGTERM", "Sending process 7 closing signal SIGTERM",
    ],
)  # fmt: skip
def test_a_negation_takes_the_meaning_of_a_word(line):
    assert told(line).found == ()


def test_a_cause_is_kept_before_hundreds_of_its_consequences():
    """Mutant: only the last 200 signs are kept."""
    state = told(OOM, *[STUCK] * 400)
    assert state.matches[0].text == OOM
    assert state.counts["watchdog"] == 400


def test_a_failure_to_write_after_the_end_still_counts():
    """Mutant: unsaved is always false."""
    assert told("training completed", "OSError: [Errno 28] No space left on device").unsaved
    noise = told("training completed", STUCK)
    assert (noise.found, noise.unsaved) == (("done", "watchdog"), False)


def test_an_end_does_not_hide_a_cause_before_it():
    """Mutant: an end counts whatever stands before it."""
    assert told(OOM, "training completed").found[0] == "gpu_memory"


def test_an_end_in_own_words_is_taken():
    assert told("Alles fertig.", done="fertig").found == ("done",)
    with pytest.raises(ConfigError):
        build(job_log.Args, {"text": "x", "done": "("})


def test_a_log_that_is_not_there_is_unknown(tmp_path):
    state = read(tmp_path / "none.log")
    assert isinstance(state.found, Unknown)
    assert state.missing == (f"{tmp_path}/none.log",)


def test_the_table_has_each_name_once_and_short_expressions():
    names = [sign.name for sign in SIGNS]
    assert len(set(names)) == len(names)
    rows = [pattern for sign in SIGNS for pattern in sign.patterns]
    assert [pattern for pattern in (*rows, *ENDS, *SOFT_ENDS) if len(pattern.replace(CODE, "")) > 160] == []
