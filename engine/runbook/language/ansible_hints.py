"""Hints for authors who know Ansible: its keys, and what to write here instead."""

from __future__ import annotations

from collections.abc import Mapping

_SECTIONS = "write steps under diagnose, remediate and verify"

MEANT: Mapping[str, str] = {
    "register": "a probe is named by its `id`: its fields are used under that name",
    "notify": "write a step with `if_changed: [the id of this one]`",
    "handlers": "write steps with `if_changed: [id]`",
    "listen": "write `if_changed: [id]`",
    "shell": "write `command: {script: ...}`, under `do` where it changes something",
    "raw": "write `command: {script: ...}`, under `do` where it changes something",
    "cmd": "write `argv: [program, argument]` or `script: ...`",
    "creates": "write `check: {argv: [test, -e, FILE]}` beside `do`",
    "ignore_errors": "write `ignore_failure: true`",
    "with_items": "write `each`",
    "with_list": "write `each`",
    "loop": "write `each`",
    "changed_when": "write a `check` beside `do`: its exit code says whether the change is needed",
    "failed_when": "write `accepts: [exit codes]` in the command",
    "until": "write `within` and `every`",
    "retries": "write `retry: {times: 3, every: 2s}`, or `within`",
    "delay": "write `every`",
    "become": "write it in each step that needs it, or once under `defaults:`",
    "become_user": "write `become: USER`",
    "become_method": "sudo is used: write `become: true`, or `become: USER`",
    "remote_user": "write `ssh_user` in the inventory, or `become: USER`",
    "delegate_to": "write `on: HOST`",
    "local_action": "write `on: controller`",
    "run_once": "write `once: true`",
    "environment": "write `env`",
    "chdir": "write `cwd`",
    "vars": "write `inputs: {name: {about: ..., default: ...}}`",
    "vars_prompt": "write an input with `required: true`",
    "gather_facts": "leave it out: write probes under `diagnose`",
    "tasks": _SECTIONS,
    "pre_tasks": _SECTIONS,
    "post_tasks": _SECTIONS,
    "roles": "write `include: PLAYBOOK` as a step",
    "import_playbook": "write `include: PLAYBOOK` as a step",
    "include_tasks": "write `include: PLAYBOOK` as a step",
    "import_tasks": "write `include: PLAYBOOK` as a step",
    "block": "write the steps one after the other, those that follow a failure with `if_failed`",
    "rescue": "write steps with `if_failed: [id]`",
    "serial": "write `limits: {batches: [1, 100%]}`",
    "max_fail_percentage": "write `limits: {stop_after: 10%}`, or `limits: {max_unavailable: 10%}`",
    "throttle": "write `limits: {max_concurrent_per: {VARIABLE: 1}}`, or --parallel on the command line",
    "order": "write `limits: {order: sorted}`",
    "debug": "write `note: {text: ...}`",
    "fail": "write a finding: `{id: ..., when: ..., severity: error, say: ...}`",
    "assert": "write a step of `verify`",
    "copy": "write `file`",
    "template": "write `file`, whose content may have templates",
    "lineinfile": "write `config_patch`, or `file`",
    "systemd": "write `service`, or `systemd_unit`",
    "apt": "write `package`",
    "yum": "write `package`",
    "dnf": "write `package`",
    "async": "write `timeout`",
    "poll": "leave it out: each command is waited for",
    "warn": "leave it out",
    "stdin": "write `script` with the text in it",
    "executable": "scripts run under sh; name another program in `argv`",
    "removes": "write `check: {argv: [test, '!', -e, FILE]}` beside `do`",
    "args": "write the arguments under the action itself",
    "no_log": "name the input with `secret: true`",
    "msg": "write `say` in a finding, `text` in a note",
    "message": "write `say` in a finding, `text` in a note",
    "forks": "write --parallel on the command line",
    "strategy": "leave it out: hosts are worked on side by side; `limits: {batches: ...}` makes groups",
    "any_errors_fatal": "write `limits: {stop_after: 1}`",
    "set_fact": "write a probe, or an expression where the value is used",
    "check_mode": "leave it out: --dry-run never changes anything",
}
"""Ansible keys that have no meaning in a playbook of this tool, each with its replacement."""

MODULES = frozenset(
    {
        *("shell", "raw", "debug", "fail", "assert", "copy", "template", "lineinfile", "systemd", "apt", "yum", "dnf"),
        *("set_fact", "local_action", "roles", "import_playbook", "include_tasks", "import_tasks", "block"),
    }
)
"""Ansible modules: in Ansible they are written where a step of this tool has its action."""


def stands_for_action(key: str) -> bool:
    """Whether *key*, which is no key of a step, was probably meant as the action of the step."""
    last = key.rpartition(".")[2]
    return last not in MEANT or last in MODULES
