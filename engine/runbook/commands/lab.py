"""The commands of ``runbook lab``."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from shlex import quote

from runbook import lab
from runbook.commands.input_files import find_playbook, read_playbook
from runbook.commands.options import Recording, RunOptions
from runbook.commands.run import run_playbook
from runbook.commands.workspace import Person
from runbook.errors import ConfigError
from runbook.plugins import discover
from runbook.values.types import Json, plural

OF_ALL = "zombie-gpu"
"""The playbook for which the usual set of hosts is started."""


def up_text(directory: str, faults: Sequence[str], embedded: bool, playbook: str = "") -> str:
    """Start the lab, and return text about it; without *faults*, it gets the hosts to practise *playbook* on."""
    if playbook and playbook not in {*lab.SCENARIOS, OF_ALL}:
        raise ConfigError(f"there is no lab for {playbook!r} (only for: {', '.join(sorted({*lab.SCENARIOS, OF_ALL}))})")
    scene = lab.SCENARIOS.get(playbook or OF_ALL, lab.Scenario(hosts=()))
    hosts = scene.hosts if playbook else ()
    with lab.held(_directory(directory)):
        before = [host.name for host in lab.status(_directory(directory)) if host.lives]
        it = lab.up(_options(directory, faults or hosts, embedded))
    given = _as_options(lab.inputs_of(scene, it.hosts))
    rows = [
        f"  {host.name:14} {host.address:18} {', '.join(host.faults) or 'healthy'}" for host in lab.status(it.directory)
    ]
    return "\n".join(
        [
            *(
                [f"ended {', '.join(before)} (the lab in {it.directory}; --dir DIR keeps two labs separate)"]
                if before
                else []
            ),
            f"{plural(len(rows), 'host')} up:",
            *rows,
            "",
            *lab.sharing(it.directory),
            "",
            f"runbook run {playbook or OF_ALL} --hosts all -i {quote(str(it.inventory))}{f' {given}' if given else ''}",
            f"runbook lab down{f' --dir {quote(directory)}' if directory else ''}",
        ]
    )


def down_text(directory: str) -> str:
    """Stop the lab, and return text about the hosts that were stopped."""
    with lab.held(_directory(directory)):
        ended = lab.down(_directory(directory))
    return f"ended {', '.join(ended)}" if ended else "no lab is running"


def status_text(directory: str) -> str:
    """Return text about the lab's hosts, and their processes."""
    where = _directory(directory)
    rows = [line for host in lab.status(where) for line in (str(host), *_living(host))]
    return "\n".join([*rows, "", *lab.sharing(where)]) if rows else "no lab is running: start one with `runbook lab up`"


def _living(host: lab.LabHost) -> list[str]:
    """Return a line for each process of *host*."""
    found = lab.processes_on_host(host.pid) if host.lives else ()
    return [f"    pid {pid:<6} {command if len(command) <= 90 else command[:89] + '…'}" for pid, command in found]


def faults_text() -> str:
    """Return text about every fault that a lab host can have, and about how lab hosts are isolated on this machine."""
    width = max(map(len, lab.FAULTS))
    try:
        isolation = lab.found().lines()
    except ConfigError as error:
        isolation = (str(error),)
    return "\n".join([*(f"{name:{width}} {sentence}" for name, sentence in lab.FAULTS.items()), "", *isolation])


def open_shell(directory: str, host: str) -> None:
    """Replace this program by an SSH session on *host*; does not return."""
    argv = lab.shell_argv(_directory(directory), host)
    if not shutil.which(argv[0]):
        raise ConfigError(f"{argv[0]} is not installed; by hand: {' '.join(argv)}")
    os.execvp(argv[0], argv)  # noqa: S606 - a tuple of words, no shell


def run_in_lab(playbook: str, directory: str, faults: Sequence[str], options: RunOptions, person: Person) -> int:
    """Start the lab, run *playbook* there, and stop the lab in any case.  Returns the exit code."""
    if options.choosing.inventory:
        raise ConfigError("`lab run` starts its own hosts and takes no -i: use `runbook run` for other hosts")
    if options.settle:
        raise ConfigError("`lab run` starts its own hosts, to which nothing is owed yet: leave out --settle")
    with lab.held(_directory(directory)):
        return _run_there(playbook, directory, faults, options, person)


def _run_there(playbook: str, directory: str, faults: Sequence[str], options: RunOptions, person: Person) -> int:
    where = _directory(directory)
    if any(host.lives for host in lab.status(where)):
        raise ConfigError(
            f"a lab is running already: use it with `runbook run` and -i {where / lab.INVENTORY}, "
            f"end it with `runbook lab down{f' --dir {quote(directory)}' if directory else ''}`, or give another --dir"
        )
    path = find_playbook(playbook)
    book = read_playbook(path, discover())
    declared = {each.name for each in book.inputs}
    scene = lab.SCENARIOS.get(path.stem, lab.Scenario(hosts=()))
    it = lab.up(_options(directory, faults or scene.hosts))
    try:
        for line in lab.sharing(it.directory)[:-1]:
            person.say(line)  # what these hosts do not have of their own
        below = {name: value for name, value in lab.inputs_of(scene, it.hosts).items() if name in declared}
        if below:
            person.say(f"inputs for this lab, unless you give others: {_as_options(below)}")
        hosts = options.choosing.hosts
        if hosts is None:
            hosts = (book.hosts if path.stem in lab.SCENARIOS else "") or "all"
        within = replace(
            options,
            choosing=replace(options.choosing, hosts=hosts, inventory=(str(it.inventory),)),
            given=replace(options.given, below=below),
            recording=UNRECORDED,
        )
        return run_playbook(playbook, within, person)
    finally:
        lab.down(it.directory)


UNRECORDED = Recording(records="")
"""A run in the lab is not recorded: its hosts do not exist later, and real hosts may have the same names."""


def _as_options(inputs: Mapping[str, Json]) -> str:
    texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in inputs.items()}
    return " ".join(f"-e {quote(f'{name}={text}')}" for name, text in texts.items())


def _directory(given: str) -> Path:
    return Path(given) if given else lab.default_directory()


def _options(directory: str, faults: Sequence[str], embedded: bool = False) -> lab.LabOptions:
    return lab.LabOptions(directory=_directory(directory), faults=tuple(faults), embedded=embedded)
