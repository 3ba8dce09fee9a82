"""Load a playbook of toy actions from its text, and the ones that it includes from theirs."""

from __future__ import annotations

from dataclasses import replace

from runbook.errors import ConfigError
from runbook.language.includes import inputs_of_parts
from runbook.language.loader import load_playbook
from tests.support.toy_actions import ACTIONS, ToyHost, site, with_run


def load(text: str, **others: str):
    def opened(name: str, file: str) -> tuple[str, str]:
        if name not in others:
            raise ConfigError(f"no playbook {name!r}")
        return f"{name}.yaml", others[name]

    return load_playbook(text, "toy.yaml", ACTIONS, opened)


def placed(text: str, host: ToyHost, **others: str):
    book = load(text, **others)
    inputs = {it.name: it.default for it in book.inputs}
    return replace(with_run(site(book, host), inputs=inputs), parts=inputs_of_parts(book, inputs))
