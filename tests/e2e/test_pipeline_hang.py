"""A pipeline whose trainer waits for batches: over real SSH, with real files, processes and an HTTP server."""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from runbook import lab
from runbook.lab.scenarios import PIPELINE
from tests.support.program import Practice, Said, scene
from tests.support.unprivileged import NOBODY, ordinary_user

pytestmark = pytest.mark.real("lab", "sshd", "curl")

FAULTS = (
    *("pipeline", "inference_died", "inference_sick", "no_model", "no_environment", "wrong_address"),
    *("started_early", "idle", "unseen", "outputs_read_only", "outputs_missing", "rollouts_read_only", "trainer_died"),
)
OTHERS = ("healthy=smi_fails", "again=unseen")
BEGUN = f"""cd {PIPELINE}; echo 'ERROR Connection refused; Permission denied' >>logs/orchestrator.log
rm -r outputs/wordle/rollouts/step_*"""
"""What there was of batches is gone, and those that come are young."""


def named(fault: str) -> str:
    """The host with *fault*."""
    return fault.replace("_", "-")


@dataclass
class Seen:
    """What was said of hosts with one fault each."""

    all: Said
    no_log: Said
    before_start: Said
    configs: dict[str, str]
    backups: dict[str, str]

    def verdict(self, fault: str) -> str:
        return self.all.host(named(fault))["verdict"]

    def finding(self, fault: str, finding: str) -> dict:
        return self.all.finding(named(fault), finding)

    def present(self, fault: str) -> list[str]:
        found = self.all.host(named(fault))["findings"]
        return [it["id"] for it in found if it["status"] == "present" and it["severity"] != "info"]

    def writes(self, fault: str) -> list[str]:
        steps = self.all.host(named(fault))["steps"]
        sent = [it for step in steps for it in step["commands"] if it["effect"] == "write"]
        return [it["line"] for it in sent if it["exit_code"] is not None]


@pytest.fixture(scope="module")
def seen(tmp_path_factory) -> Seen:
    """One run for all of them, beside two others."""
    folder = tmp_path_factory.mktemp("pipelines") / "lab"
    made = Practice(lab.up(lab.LabOptions(directory=folder, faults=(*OTHERS, *(f"{named(it)}={it}" for it in FAULTS)))))
    try:
        made.exec("again", BEGUN)
        runs = (
            ({"repair": '["address", "directory", "synchronous"]', "watch": "1s"}, "all"),
            ({"trainer_log": '["/run/lab/none.log"]'}, "pipeline"),
            ({"before_start": "true", "outputs": "/run/lab/outputs"}, "healthy"),
        )
        with ThreadPoolExecutor(3) as pool:
            said = tuple(
                pool.map(
                    lambda it: made.run("pipeline-hang", "--yes", *scene("pipeline-hang", **it[0]), hosts=it[1]), runs
                )
            )
        changed = ("wrong_address", "idle")
        yield Seen(
            *said,
            configs={it: made.exec(named(it), f"cat {PIPELINE}/orch.toml") for it in changed},
            backups={it: made.exec(named(it), f"cat {PIPELINE}/orch.toml.backup-*") for it in changed},
        )
    finally:
        lab.down(folder)


@pytest.mark.parametrize("fault", ["pipeline", "healthy"])
def test_a_pipeline_that_goes_on_and_a_host_without_one_are_healthy(seen, fault):
    assert (seen.verdict(fault), seen.present(fault), seen.writes(fault)) == ("healthy", [], []), seen.all.out
    assert seen.finding(fault, "no_pipeline")["status"] == ("present" if fault == "healthy" else "absent")


@pytest.mark.parametrize(
    ("fault", "causes", "words"),
    [
        ("inference_died", ["dead", "inference_failed"], "the inference server has ended"),
        ("inference_sick", ["inference_down"], "inference:8000/health: 503"),
        ("no_model", ["no_model"], "serves no model"),
        ("no_environment", ["dead", "no_environment"], "the orchestrator has ended"),
        ("started_early", ["cannot_connect"], "2 times"),
        ("unseen", ["batches_unseen"], "the trainer does not see them"),
        ("outputs_read_only", ["not_writable"], "Read-only file system"),
        ("rollouts_read_only", ["file_errors"], "could not write its files"),
        ("trainer_died", ["dead"], "the trainer has ended"),
    ],
)
def test_the_cause_is_named_and_nothing_is_changed(seen, fault, causes, words):
    assert (seen.verdict(fault), seen.present(fault)) == ("unresolved", causes), seen.all.out
    assert words in seen.finding(fault, causes[0])["say"]
    assert seen.finding(fault, causes[0])["advise"]
    assert seen.writes(fault) == []


def test_evidence_and_advice_say_why_the_inference_server_ended(seen):
    found = seen.finding("inference_died", "inference_failed")
    assert "for lack of GPU memory" in found["say"]
    assert [it["signature"] for it in found["evidence"]["lines"]] == ["start", "start", "memory"]
    assert "--inference.parallel.dp" in found["advise"][0]


def test_a_wrong_address_is_corrected_in_its_line_and_the_rest_asks_for_a_restart(seen):
    before = seen.backups["wrong_address"]
    assert before.count("http://inference:8001/v1") == 1, seen.all.out
    assert seen.configs["wrong_address"] == before.replace(":8001/", ":8000/")
    assert seen.finding("wrong_address", "wrong_address")["status"] == "gone"
    assert seen.present("wrong_address") == ["cannot_connect"]
    assert "Restart the orchestrator" in seen.finding("wrong_address", "cannot_connect")["advise"][-1]
    assert len(seen.writes("wrong_address")) == 1


def test_the_asynchrony_is_taken_out_before_the_first_table(seen):
    added = seen.configs["idle"]
    assert added.replace("async_level = 0\n", "") == seen.backups["idle"], seen.all.out
    assert added.index("async_level = 0") < added.index("[client]")
    assert (seen.verdict("idle"), seen.present("idle")) == ("unresolved", ["no_batches"])
    assert "step is 10" in seen.finding("idle", "no_batches")["say"]


def test_a_directory_that_is_missing_is_made_and_the_batches_come_again(seen):
    """The complaints that the orchestrator wrote before are no fault any more; the first batch may not be taken yet."""
    assert seen.verdict("outputs_missing") == "resolved", seen.all.out
    assert seen.finding("outputs_missing", "not_writable")["status"] == "gone"
    hung, again = (seen.finding("outputs_missing", name)["status"] for name in ("hung", "batches_again"))
    assert (hung, again) in (("gone", "absent"), ("present", "present")), seen.all.out
    assert len(seen.writes("outputs_missing")) == 1


def test_batches_that_have_just_begun_to_come_are_no_fault_whatever_was_complained_of_before(seen):
    assert (seen.verdict("again"), seen.present("again")) == ("healthy", ["batches_again"]), seen.all.out


def test_before_the_start_what_is_missing_counts_on_a_host_that_has_nothing_yet(seen):
    host = seen.before_start.host("healthy")
    assert host["verdict"] == "resolved", seen.before_start.out
    assert seen.before_start.finding("healthy", "not_writable")["status"] == "gone"


def test_without_a_log_nothing_is_known_of_a_pipeline_that_runs(seen):
    assert seen.no_log.host("pipeline")["verdict"] == "unknown", seen.no_log.out
    assert seen.no_log.writes() == []


def test_the_directory_of_the_outputs_is_made_by_the_user_who_logs_in():
    """Mutants: root making it, for whom alone it would be writable."""
    with ordinary_user() as user:
        (user.home / "hosts.yaml").write_text("hosts:\n  here: {transport: local}\n")
        where = ("-i", "hosts.yaml", "--hosts", "here", "--output", "json", "--yes")
        given = (
            f"outputs={user.home}/run/outputs",
            "before_start=true",
            "watch=1s",
            "url=http://127.0.0.1:9",
            "run_dir=/none",
            "trainer_log=[/none]",
        )
        words = user.words("run", "pipeline-hang", *where, *(it for text in given for it in ("-e", text)))
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=90, stdin=subprocess.DEVNULL)
        assert done.stdout, done.stderr
        said = Said(done.returncode, done.stdout, done.stderr)
        assert said.step("here", "make_outputs")["status"] == "changed", said.out + said.err
        assert (user.home / "run/outputs").stat().st_uid == NOBODY
        assert said.finding("here", "not_writable")["status"] == "gone"


@pytest.mark.soak
def test_an_environment_is_installed_and_checked_again(practice):
    """Mutant: the old line of the log that outlives the environment."""
    made = practice("gpu-01=no_environment")
    asks = scene(
        "pipeline-hang", env_check='["test", "-e", "/run/environment"]', env_install='["touch", "/run/environment"]'
    )
    said = made.run("pipeline-hang", "--yes", *asks)
    assert said.step("gpu-01", "install_environment")["status"] == "changed", said.out
    assert said.finding("gpu-01", "no_environment")["status"] == "gone"
    assert made.run("pipeline-hang", "--yes", *asks).writes() == []
