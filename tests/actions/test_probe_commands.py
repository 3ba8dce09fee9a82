"""Which commands of probes are known to only read, and which are kept from writing."""

from __future__ import annotations

from pathlib import Path

import yaml

from runbook.library.commands.command import Program
from runbook.library.commands.script import Script
from runbook.programs.reading_programs import interpreter_in, is_to_be_confined
from runbook.values.command import Effect

CASES = yaml.safe_load((Path(__file__).parents[1] / "data" / "probe_commands.yaml").read_text())


def test_what_is_not_known_to_only_read_is_confined():
    """Mutants: each entry of the tables in reading_programs.py left out; no ``_NOT_SEEN_THROUGH``, no ``_NAMES_MOUNTS``."""
    wrong = [
        (kind, case)
        for kind, cases in CASES.items()
        for case in cases
        if is_to_be_confined(case.get("argv", ()), case.get("script", "")) != (kind == "confined")
    ]
    assert not wrong


def test_an_interpreter_with_a_program_is_named():
    cases = [case for cases in CASES.values() for case in cases]
    wrong = [
        case
        for case in cases
        if interpreter_in(case.get("argv", ()), case.get("script", "")) != case.get("interpreter", "")
    ]
    assert not wrong


def test_only_probes_are_confined():
    """Mutant: a change that is confined."""
    program = Program(argv=("python3", "x.py"))
    assert program.command(Effect.READ, (0,)).confined
    assert not program.command(Effect.WRITE, (0,)).confined
    assert not Program(argv=("cat", "/x")).command(Effect.READ, (0,)).confined
    for first in ("", "#!/bin/bash\n"):
        script = Script(file="x.sh", text=f"{first}python3 x.py\n")
        assert script.command(Effect.READ, (0,)).confined
        assert not script.command(Effect.WRITE, (0,)).confined
