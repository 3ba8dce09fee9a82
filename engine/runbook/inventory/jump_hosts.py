"""Resolve jump hosts: ``ssh_proxy`` names another host of the inventory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from runbook.errors import ConfigError, Problem
from runbook.inventory.fields import once_a_place, problem_at
from runbook.text.suggestions import suggest
from runbook.values.inventory import Host


def led(hosts: Sequence[Host]) -> tuple[Host, ...]:
    """*hosts*, each with the one that leads to it.  Raises ConfigError for names that are none, and for circles."""
    by_name = {host.name: host for host in hosts}
    if problems := [mistake for host in hosts if (mistake := _mistake(host, by_name))]:
        raise ConfigError(*once_a_place(problems))
    return tuple(_led(host, by_name) for host in hosts)


def _named(host: Host) -> str:
    name = host.vars.get("ssh_proxy")
    return str(name).strip() if name not in (None, "") and host.transport == "ssh" else ""


def _mistake(host: Host, by_name: Mapping[str, Host]) -> Problem | None:
    name = _named(host)
    if name and name not in by_name:
        hint = suggest(name, by_name, "for a host of your ssh_config, write ProxyJump there")
        return problem_at(
            host.place_of("ssh_proxy"), f"{host.name}: ssh_proxy: no host of the inventory is called {name}", hint
        )
    way = [host.name]
    while name and name not in way:
        way.append(name)
        name = _named(by_name[name]) if name in by_name else ""
    if name != host.name:
        return None
    return problem_at(host.place_of("ssh_proxy"), f"{host.name}: ssh_proxy forms a loop: {' via '.join([*way, name])}")


def _led(host: Host, by_name: Mapping[str, Host]) -> Host:
    name = _named(host)
    return replace(host, via=_led(by_name[name], by_name)) if name else host
