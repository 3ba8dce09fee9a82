"""The keys of a playbook, each in a sentence for people."""

from __future__ import annotations

from collections.abc import Mapping

ABOUT_PLAYBOOK: Mapping[str, str] = {
    "name": "The file's name without its ending.",
    "about": "What the playbook is for, in a sentence.",
    "hosts": "The default target: a name, a group, a pattern; --hosts overrides it.",
    "inputs": "What -e can set: each with what it is about, JSON Schema keywords, and a default (or required: true).",
    "diagnose": "Probes. They change nothing, and run in a dry run too.",
    "findings": "What the probes mean, in order.",
    "remediate": "What helps, gentlest first. A step runs only while what it is for is still found.",
    "verify": "Assertions for the end; the diagnosis itself is always repeated after a change.",
    "limits": "What a run may cost.",
}

ABOUT_STEP: Mapping[str, str] = {
    "id": "A name, unique in the playbook; probes need one, so that findings can name them.",
    "name": "What the step does, in words for people.",
    "when": "An expression, without {{ }}; if it is false, the step is skipped.",
    "for": (
        "The findings it is for; it runs only while one of them is there. Default: any error or critical finding. "
        "Where that is unknown, only changes go on that end no process and do nothing worse (--force: all)."
    ),
    "after": "Steps it depends on; it is probed afresh when they are done.",
    "if_changed": "It runs only if one of these steps changed something.",
    "if_failed": "It runs only if one of these steps failed, also where the host is stopped.",
    "always": "It runs whatever happened before; reported as owed (still to be done) when the host cannot be reached.",
    "timeout": "For each command, enforced on the host. Default: 30s for probes, 10m for changes.",
    "within": "Probe again for so long: until it answers (diagnose), the change shows (remediate), it is so (verify).",
    "every": "The time between two probes of `within`.",
    "retry": "Repeat a probe after a fault: so many times, with this interval. A change is sent once.",
    "samples": "Repeat the probe so many `times`, or `for` so long, one `every` so often, as long as `while` is true.",
    "become": "Use sudo: true for root, or the name of a user.",
    "on": "Send the commands to this host instead, or to the controller.",
    "once": "One probe, shared by all hosts of the run.",
    "each": "A list, or an expression that gives one; the step is taken once for every `item` of it.",
    "env": "Environment of the commands.",
    "cwd": "Folder that a command runs in.",
    "scratch": "Allow a probe to make something of its own, which it takes away again.",
    "ignore_failure": "A failure is shown, and changes no verdict.",
    "confirm": "It needs a yes, also without a terminal (--yes).",
    "tags": "For --tags and --skip-tags.",
    "include": "Another playbook; its ids get this step's id as a prefix.",
    "inputs": "Inputs of the playbook that is included.",
}

ABOUT_FINDING: Mapping[str, str] = {
    "id": "A name, unique in the playbook.",
    "when": "An expression over the probes, without {{ }}; the finding is there when it is true.",
    "severity": "info, warning, error or critical; only the last two make a verdict and drive remediation.",
    "say": "The finding in words; {{ }} is filled in.",
    "unless": "Findings before it that make it superfluous: a cheaper cause.",
    "settle": "After a change, probe for so long before the next step is taken.",
    "gone_for": "It must stay gone for so long before it counts as gone.",
    "evidence": "Names with expressions; shown to people.",
    "advise": "What a person can do if it stays, in order.",
}

ABOUT_LIMITS: Mapping[str, str] = {
    "deadline": "For the whole run; nothing is begun after it.",
    "batches": 'How many hosts are changed together, batch after batch: [1, "10%", "100%"].',
    "stop_after": 'With so many hosts that did not come out well, no further host is begun: 3, or "10%".',
}

ABOUT_INPUT: Mapping[str, str] = {
    "about": "What the input does, in a sentence.",
    "default": "Its value where none is given.",
    "required": "It must be given; it has no default.",
    "secret": "Its value is shown nowhere.",
    "env": "The variable of runbook's own environment that a text is taken from where it is not given; a secret.",
}
