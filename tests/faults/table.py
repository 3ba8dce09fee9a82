"""Every fault that the program promises to meet well, one row each: what is provoked, and what is then expected.

A row is provoked for real, by a function of this package or by the test that it names.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.faults import clocks as hours
from tests.faults import config_files, connections, docker, files, gpu, interrupts, odd_answers
from tests.faults.files import BOMB, DEEP, HUGE, Provoke

PROMISED = (
    "unreadable playbook", "empty playbook", "huge playbook", "deeply nested playbook", "YAML bomb in a playbook",
    "unreadable inventory", "empty inventory", "huge inventory", "deeply nested inventory", "YAML bomb in an inventory",
    "missing required input",
    "wrong host key", "wrong key", "wrong user", "connection cut while looking", "connection cut during a write",
    "output of 100 MB", "output without a newline", "output that is not UTF-8",
    "tool missing", "permission denied", "sudo refused",
    "nvidia-smi dies in the middle", "[GPU requires reset]", "unknown fields", "MIG", "driver mismatch",
    "Docker daemon down", "Docker daemon hung", "Docker not permitted",
    "full disk during a patch", "read-only disk during a patch", "file changes between look and patch",
    "symlink in place of the file", "two runs at once on one host", "clock an hour off", "reboot in the middle",
    "Ctrl-C while connecting", "Ctrl-C while looking", "Ctrl-C at the prompt", "Ctrl-C during a write",
    "Ctrl-C during the second probe", "Ctrl-C while waiting for a finding to stay gone",
)  # fmt: skip
"""Each of them has a row."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A row: exactly one of *by* and *test* provokes it."""

    of: str
    """One of PROMISED."""
    what: str
    """A sentence about what happens, and to what end."""
    code: int
    """What the program exits with."""
    host: str = ""
    """Whom the rest is about; empty: nobody was connected to, and the words stand on stderr."""
    verdict: str = ""
    step: str = ""
    status: str = ""
    """Of the step."""
    words: tuple[str, ...] = ()
    """What people read of it."""
    by: Provoke | None = None
    test: str = ""
    """The id of a test, from ``tests/`` on."""


def refused(of: str, what: str, *words: str, by: Provoke) -> Fault:
    """A mistake in a file or on the command line: one message, and nobody is connected to."""
    return Fault(of=of, what=what, code=2, words=words, by=by)


FILES = (
    refused("unreadable playbook", "A playbook that may not be read is named, with the reason.",
            "cannot read", "toy.yaml", "Permission denied", by=files.unreadable_playbook),
    refused("empty playbook", "An empty playbook: it is said what a playbook is.",
            "toy.yaml:1:1: a playbook is a mapping, but this is an empty file", by=files.playbook("")),
    refused("huge playbook", "A playbook of 5 MB is not read to its end.",
            "toy.yaml is larger than 4 MiB", by=files.playbook(HUGE)),
    refused("deeply nested playbook", "A playbook of 5000 brackets is refused before the parser breaks.",
            "toy.yaml:2:", "nested deeper than 50 levels", by=files.playbook(DEEP)),
    refused("YAML bomb in a playbook", "Aliases that multiply are counted, not followed.",
            "toy.yaml:", "more than 200000 values", by=files.playbook(BOMB)),
    refused("unreadable inventory", "An inventory that may not be read is named, with the reason.",
            "cannot read", "inventory.yaml", "Permission denied", by=files.unreadable_inventory),
    refused("empty inventory", "An empty inventory: it is said what an inventory has.",
            "inventory.yaml:1:1: the file is empty", "`hosts:`", by=files.inventory("")),
    refused("huge inventory", "An inventory of 5 MB is not read to its end.",
            "inventory.yaml is larger than 8 MiB", by=files.inventory(HUGE)),
    refused("deeply nested inventory", "An inventory of 5000 brackets is refused before the parser breaks.",
            "inventory.yaml:2:", "nested deeper than 50 levels", by=files.inventory(DEEP)),
    refused("YAML bomb in an inventory", "Aliases that multiply are counted, not followed.",
            "inventory.yaml:", "more than 300000 values", by=files.inventory(BOMB)),
    refused("missing required input", "An input that must be given is named, with what it is for and how to give it.",
            "the input 'configs' is required", "-e configs=", "Configuration files on the host", by=files.missing_input),
)  # fmt: skip

LINES = (
    Fault(of="wrong host key", what="A host with another key than the known one is not logged in to.", code=4,
          host="far", verdict="unreachable", step="look", status="unreachable",
          words=("its host key has changed", "known_hosts:1", "ssh-keygen -R"), by=connections.wrong_host_key),
    Fault(of="wrong key", what="A refused login says as whom, and with which key.", code=4,
          host="far", verdict="unreachable", step="look", status="unreachable",
          words=("login as root with", "/other was refused"), by=connections.wrong_key),
    Fault(of="wrong user", what="A refused login says as whom, and with which key.", code=4,
          host="far", verdict="unreachable", step="look", status="unreachable",
          words=("login as nosuchuser with", "was refused"), by=connections.wrong_user),
    Fault(of="connection cut while looking", what="A probe that was cut off is taken again on a new line.", code=0,
          host="far", verdict="healthy", step="look", status="ok", by=connections.cut_once_while_looking),
    Fault(of="connection cut while looking", what="A host that stays away is unreachable.", code=4,
          host="far", verdict="unreachable", step="look", status="unreachable", words=("connection refused",),
          by=connections.cut_for_good_while_looking),
    Fault(of="connection cut during a write", what="A write whose line was cut is unknown, and is sent once.", code=1,
          host="far", verdict="unknown", step="write", status="unknown",
          words=("the connection was lost while this command ran", "it is not sent again"), by=connections.cut_during_a_write),
    Fault(of="connection cut during a write", what="Nothing is done after a write whose line was cut.", code=1,
          host="far", verdict="unknown", step="later", status="blocked",
          words=("no more commands can be sent to the host", "the connection to the host was lost"),
          by=connections.cut_during_a_write),
)  # fmt: skip

ANSWERS = (
    Fault(of="output of 100 MB", what="Of a flood both ends are kept, and what is left out is said.", code=0,
          host="far", verdict="healthy", step="flood", status="ok", words=("bytes left out ...]",), by=odd_answers.a_flood),
    Fault(of="output without a newline", what="Output that ends without a newline is whole, and ends there.", code=0,
          host="here", verdict="healthy", step="look0", status="ok", by=odd_answers.odd_output),
    Fault(of="output that is not UTF-8", what="What is not UTF-8 is replaced, and the rest is kept.", code=0,
          host="here", verdict="healthy", step="look1", status="ok", words=("caf\ufffd",), by=odd_answers.odd_output),
    Fault(of="output without a newline", what="A line of 20 MB is cut in the middle like any other.", code=0,
          host="here", verdict="healthy", step="look2", status="ok", words=("bytes left out ...]",),
          by=odd_answers.odd_output),
    Fault(of="tool missing", what="A program that is not there is no answer.", code=1,
          host="here", verdict="unknown", step="look", status="failed", words=("127", "no-such-tool", "not found"),
          by=odd_answers.a_tool_that_is_missing),
    Fault(of="permission denied", what="A configuration that may not be read is no answer.", code=1,
          host="here", verdict="unknown", step="config", status="failed", words=("train.yaml may not be read",),
          by=odd_answers.permission_denied),
    Fault(of="permission denied", what="A program that may not be run is no answer.", code=1,
          host="here", verdict="unknown", step="tool", status="failed", words=("126", "Permission denied"),
          by=odd_answers.permission_denied),
    Fault(of="permission denied", what="What rests on a log that may not be read is unknown.", code=1,
          host="here", verdict="unknown", words=("could not be read", "job.log"), by=odd_answers.permission_denied),
    Fault(of="sudo refused", what="A probe that needs sudo is no answer without it.", code=1,
          host="far", verdict="failed", step="look", status="failed",
          words=("sudo to root is refused", "--ask-become-pass"), by=odd_answers.sudo_refused),
    Fault(of="sudo refused", what="A change that needs sudo is not sent without it.", code=1,
          host="far", verdict="failed", step="write", status="failed",
          words=("nothing was sent", "sudo to root is refused"), by=odd_answers.sudo_refused),
)  # fmt: skip

GPUS = (
    Fault(of="nvidia-smi dies in the middle", what="Half a row is no GPU, and nobody is ended.", code=1,
          host="dies", verdict="unknown", step="gpus", status="failed", words=("exit code 137", "incomplete line"), by=gpu.liars),
    Fault(of="nvidia-smi dies in the middle", what="Whether a process is left over is not known, so it stays.", code=1,
          host="dies", verdict="unknown", step="stop_leftovers", status="blocked",
          words=("whether it is left over is not known",), by=gpu.liars),
    Fault(of="unknown fields", what="A field that this nvidia-smi does not know costs only itself.", code=1,
          host="fields", verdict="healthy", words=("left alone, because its GPU is at work",),
          by=gpu.liars),
    Fault(of="MIG", what="Under MIG nobody knows how busy a GPU is, so its processes stay.", code=1,
          host="mig", verdict="unknown", step="stop_leftovers", status="blocked",
          words=("MIG: the driver does not say how busy a partitioned GPU is",), by=gpu.liars),
    Fault(of="driver mismatch", what="A driver that does not fit its library is named, and nobody is ended.", code=1,
          host="mismatch", verdict="unknown", step="gpus", status="failed",
          words=("the versions of the driver and of its library differ",), by=gpu.liars),
    Fault(of="tool missing", what="GPUs without an nvidia-smi are unknown, and nobody is ended.", code=1,
          host="gone", verdict="unknown", step="gpus", status="failed", words=("this host has no nvidia-smi on PATH",),
          by=gpu.liars),
    Fault(of="[GPU requires reset]", what="A GPU that asks for a reset gets none without a yes.", code=1,
          host="reset", verdict="unresolved", step="reset", status="blocked",
          words=("needs --yes", "resets-hardware"), by=gpu.unasked),
    Fault(of="[GPU requires reset]", what="With a yes, that GPU alone is reset.", code=0,
          test="e2e/test_zombie_gpu.py::test_a_gpu_that_wants_a_reset_gets_one_alone_and_persistence_comes_back",
          host="gpu-01", verdict="resolved", step="reset", status="changed"),
)  # fmt: skip

DOCKERS = (
    Fault(of="Docker daemon down", what="A daemon that does not run is no host without containers.", code=1,
          host="here", verdict="unknown", step="down", status="failed",
          words=("the Docker daemon is not running", "journalctl -u docker"), by=docker.silent_engines),
    Fault(of="Docker daemon hung", what="A daemon that does not answer is given up in time.", code=1,
          host="here", verdict="unknown", step="hung", status="failed",
          words=("Docker does not answer", "its daemon hangs"), by=docker.silent_engines),
    Fault(of="Docker not permitted", what="Who may not talk to Docker learns what to do.", code=1,
          host="here", verdict="unknown", step="closed", status="failed",
          words=("no permission to talk to Docker", "become: true"), by=docker.silent_engines),
)  # fmt: skip

PATCHES = (
    Fault(of="full disk during a patch", what="The file stays as it is, and nothing else is left there.", code=1,
          host="here", verdict="failed", step="patch", status="failed",
          words=("nothing was written", "No space left on device"), by=config_files.full_disk),
    Fault(of="read-only disk during a patch", what="Nothing is sent to a disk that is read-only by now.", code=1,
          host="here", verdict="unresolved", step="patch", status="blocked", words=("is read-only",),
          by=config_files.read_only_disk),
    Fault(of="file changes between look and patch", what="What somebody else has edited since the plan stays.", code=6,
          host="here", verdict="drifted", step="patch", status="drifted", words=("the plan did not show",),
          by=config_files.file_changes),
    Fault(of="file changes between look and patch", what="What changes in the very last moment stays, too.", code=1,
          host="here", verdict="failed", step="patch", status="failed",
          words=("has changed since it was inspected: nothing was written",), by=config_files.file_changes_in_the_write),
    Fault(of="symlink in place of the file", what="What a link leads to was not in the plan, and stays.", code=6,
          host="here", verdict="drifted", step="patch", status="drifted",
          words=("a link to", "elsewhere/shadow", "the plan did not show"), by=config_files.symlink_instead),
    Fault(of="two runs at once on one host", what="The second waits, looks again, and does not do it twice.", code=0,
          host="here", verdict="healthy", step="write", status="ok", words=("there is nothing to do",),
          by=config_files.two_at_once),
)  # fmt: skip

HOURS = (
    Fault(of="clock an hour off", what="Ages are by the clock of the host, and a copy is named by it.", code=0,
          host="ahead", verdict="resolved", step="patch", status="changed", by=hours.clocks),
    Fault(of="clock an hour off", what="A file from an hour ahead is of unknown age, not new.", code=0,
          host="behind", verdict="resolved", words=("odd was last written", "the clock of this host is wrong"),
          by=hours.clocks),
    Fault(of="reboot in the middle", what="What a reboot has cut off is unknown, and not sent again.", code=1,
          host="gpu-01", verdict="unknown", step="write", status="unknown",
          words=("the connection was lost while this command ran", "it is not sent again"), by=hours.reboot),
    Fault(of="reboot in the middle", what="Nothing more is sent to a host that is gone.", code=1,
          host="gpu-01", verdict="unknown", step="later", status="blocked",
          words=("no more commands can be sent to the host",), by=hours.reboot),
)  # fmt: skip

INTERRUPTS = (
    Fault(of="Ctrl-C while connecting", what="Both who was being reached and who waited are reported.", code=130,
          host="far", verdict="cancelled", step="look", status="cancelled",
          words=("interrupted by SIGINT while the host was being connected to",), by=interrupts.connecting),
    Fault(of="Ctrl-C while looking", what="A probe is ended on the host at once.", code=130,
          host="here", verdict="cancelled", step="look", status="cancelled",
          words=("this probe was ended on the host",), by=interrupts.looking),
    Fault(of="Ctrl-C at the prompt", what="It is a no: the plan is shown, and nothing is done.", code=130,
          host="here", verdict="planned", step="write", status="would_change", by=interrupts.at_the_prompt),
    Fault(of="Ctrl-C during a write", what="The write comes to its end.", code=130,
          host="here", verdict="cancelled", step="write", status="changed", by=interrupts.writing),
    Fault(of="Ctrl-C during a write", what="Nothing is started after it.", code=130,
          host="here", verdict="cancelled", step="later", status="cancelled",
          words=("asked to stop before this command was sent",), by=interrupts.writing),
    Fault(of="Ctrl-C during a write", what="Nor does it end the program that carries the line.", code=130,
          host="far", verdict="resolved", step="write", status="changed", by=interrupts.writing_through_a_proxy),
    Fault(of="Ctrl-C during a write", what="The second one ends the write, and says that it is half done.", code=130,
          host="here", verdict="cancelled", step="write", status="cancelled",
          words=("asked to stop twice", "ended half-way"), by=interrupts.writing_twice),
    Fault(of="Ctrl-C during the second probe", what="What was done is reported, and that it is not proven.", code=130,
          host="here", verdict="cancelled", step="write", status="cancelled", words=("done, but not probed again",),
          by=interrupts.second_look),
    Fault(of="Ctrl-C while waiting for a finding to stay gone", what="What was done is reported.", code=130,
          host="here", verdict="cancelled", step="mend", status="changed", by=interrupts.waiting_for_a_finding),
    Fault(of="Ctrl-C while waiting for a finding to stay gone", what="The finding is unknown, not gone.", code=130,
          host="here", verdict="cancelled", words=("unknown", "the host could not be probed after the change"),
          by=interrupts.waiting_for_a_finding),
)  # fmt: skip

FAULTS: tuple[Fault, ...] = (*FILES, *LINES, *ANSWERS, *GPUS, *DOCKERS, *PATCHES, *HOURS, *INTERRUPTS)
