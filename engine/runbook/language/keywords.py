"""The keys of a playbook, each described in one sentence."""

from __future__ import annotations

from collections.abc import Mapping

ABOUT_PLAYBOOK: Mapping[str, str] = {
    "name": "The file's name without its ending.",
    "about": "What the playbook is for, in one sentence.",
    "symptom": "Texts, and {pattern: REGULAR EXPRESSION}, of the errors that it is for; `runbook find` searches them.",
    "hosts": "The default target: a name, a group, a pattern; --hosts overrides it.",
    "inputs": "What -e can set: each with its `about`, JSON Schema keywords, and a default (or required: true).",
    "moved": "Inputs of earlier versions, each with the playbook that has it now; -e with one of them says so.",
    "secrets": "Where the values of secrets are (never the values); a step uses one in its `env`: {{ secrets.NAME }}.",
    "defaults": "Keys for steps that do not have them: `become` (not with `on`), `timeout`, `retry` (not of changes).",
    "let": "Names for expressions, each usable in every expression and text below, and in the values after it.",
    "diagnose": "Probes. They change nothing, and run in a dry run too.",
    "findings": "What the probes mean, in order.",
    "remediate": "The changes that help, gentlest first. A step runs only while a finding that it is for is present.",
    "verify": "Assertions at the end of the run; after a change the diagnosis is repeated anyway.",
    "limits": "Limits of a run: deadlines, batches, how many hosts at once, when to stop.",
}

ABOUT_STEP: Mapping[str, str] = {
    "id": "A name, unique in the playbook; probes need one, so that findings can name them.",
    "name": "What the step does, in words for people.",
    "when": "An expression, without {{ }}; if it is false, the step is skipped.",
    "for": (
        "The findings that the step is for; it runs only while one of them is present. Default: any error or critical "
        "finding. While it is unknown, the step is blocked (--force: run it)."
    ),
    "after": "Steps that this one depends on; its probe runs again when they are done.",
    "if_changed": "The step runs only if one of these steps changed something.",
    "if_failed": "The step runs only if one of these steps failed, even if the failure stopped the other steps.",
    "always": "The step runs whatever happened before; reported as owed (pending) if the host cannot be reached.",
    "timeout": "For each command, enforced on the host. Default: 30s for probes, 10m for changes.",
    "within": "How long to probe again until it answers (diagnose), shows the change (remediate) or holds (verify).",
    "every": "The time between two probes of `within`.",
    "retry": "Repeat a failed probe: how many `times`, and `every` how long. A change is sent only once.",
    "samples": "Repeat the probe: how many `times` or `for` how long, `every` how long, and only `while` this is true.",
    "become": "Run the commands with sudo: true for root, or the name of a user.",
    "on": "Send the commands to this host instead, or to the controller (this machine).",
    "once": "One probe, shared by all hosts of the run.",
    "each": "A list, or an expression that returns one; the step runs once for every `item` of it.",
    "env": "Environment of the commands.",
    "cwd": "Working directory of the command.",
    "scratch": "Allow a probe to create temporary files of its own, which it removes again.",
    "ignore_failure": "A failure is shown, but does not change the verdict.",
    "confirm": "The step always needs a yes (without a terminal: --yes).",
    "tags": "For --tags and --skip-tags.",
    "include": "Another playbook; its ids get this step's id as a prefix.",
    "inputs": "Inputs of the included playbook.",
}

ABOUT_FINDING: Mapping[str, str] = {
    "id": "A name, unique in the playbook.",
    "when": "An expression over the probes, without {{ }}; the finding is present when it is true.",
    "severity": "info, warning, error or critical; only error and critical affect the verdict and call for changes.",
    "across": (
        "What is compared between the hosts of the run, once all are probed: an expression that each host evaluates, "
        "or `{value: EXPRESSION, by: EXPRESSION}`, which compares hosts with the same `by`."
    ),
    "say": "The finding as a sentence; may contain {{ }}.",
    "unless": "Earlier findings that explain this one; while one of them is present, this one is absent.",
    "settle": "After a change, how long to probe again for the finding to go before the next step runs.",
    "gone_for": "How long the finding must stay absent before it counts as gone.",
    "evidence": "Names with expressions; their values are shown with the finding.",
    "advise": "What a person can do if the finding stays, in order; one whose template comes to nothing is left out.",
}

ABOUT_GROUP: Mapping[str, str] = {
    "findings": "Findings that stand together; as an entry of `findings`, instead of a single one.",
    "when": "A condition for all of them, beside that of each.",
    "unless": "Earlier findings that explain any of them, beside those of each.",
    "causes": "first: they are in the order of cause; the first error that is present explains those after it.",
}

ABOUT_LIMITS: Mapping[str, str] = {
    "deadline": "Time limit of the whole run; nothing is started after it.",
    "host_deadline": "Time limit of the work on one host; a change that runs then finishes, and nothing else begins.",
    "batches": 'How many hosts are changed together, batch after batch (rounded up): [1, "10%", "100%"].',
    "pause_between": "How long to wait between the end of a batch and the beginning of the next one.",
    "stop_after": (
        "Once so many hosts failed, or are unresolved, unknown, unreachable or cancelled, no further host is started: "
        '3, or "10%" of all hosts (rounded up).'
    ),
    "max_unavailable": (
        "At most so many hosts are being changed, or failed, unresolved, unknown, unreachable or cancelled, at any "
        'moment: 3, or "10%" of all hosts (rounded down, at least 1).'
    ),
    "max_concurrent_per": "At most so many hosts with the same value of a variable are changed at once: {rack: 1}.",
    "order": "The order in which hosts are taken: inventory, reverse_inventory, sorted, reverse_sorted or shuffle.",
    "confirm_from": (
        "The risk from which on a step needs the yes of a person on a terminal, or a saved plan; --yes is not enough."
    ),
    "approvals": "How many other people must approve a saved plan before it is applied; the playbook needs one then.",
    "attempts": (
        "A host that so many recorded runs of this playbook have changed within a time is not changed again: "
        "{per_host: 2, within: 7d}."
    ),
    "cooldown": "How long a host that this playbook has changed is not changed again.",
    "breaker": (
        "Once so many hosts were changed by this playbook within a time, by recorded runs and this one, no further "
        'host is changed: {hosts: "20%", within: 1h} (rounded down, at least 1).'
    ),
}

ABOUT_INPUT: Mapping[str, str] = {
    "about": "What the input does, in one sentence.",
    "default": "Its value if none is given.",
    "required": "It must be given; it has no default.",
    "secret": "Its value is never shown.",
    "env": "The variable of runbook's own environment from which the value is taken if not given; it is a secret.",
}

ABOUT_SECRET: Mapping[str, str] = {
    "env": "The variable of runbook's own environment that holds the value.",
    "file": "A file on this machine that only its owner can read; beside the playbook (or inventory), or absolute.",
    "command": "A program on this machine, with its arguments, that prints the value; no shell reads them.",
    "keyring": "An entry of this machine's keyring: its `service` and its `user` (needs the package keyring).",
    "description": "What the secret is for. With nothing else, the inventory has to say where the value is.",
}
