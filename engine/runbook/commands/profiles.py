"""Apply the profiles of an inventory: inputs in place of a playbook's defaults, and limits, for some of the hosts."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from runbook.codec import to_json
from runbook.commands.input_files import playbook_files
from runbook.commands.step_resolution import with_places
from runbook.errors import ConfigError, Problem
from runbook.execution.fleet import Assignment
from runbook.language.includes import inputs_of_parts
from runbook.language.inputs import faults
from runbook.language.static_arguments import problems_with_inputs_given
from runbook.plugins import discover
from runbook.secrets.documents import secrets_in
from runbook.secrets.masking import Masking, masked
from runbook.text.suggestions import suggest
from runbook.values.inventory import Host, Inventory, Profile
from runbook.values.playbook import Input, Limits, Playbook
from runbook.values.run_origin import InputsByPlaybook
from runbook.values.types import Json


def inputs_from_profiles(
    playbook: Playbook, inventory: Inventory, hosts: Sequence[Host], given: Collection[str] = ()
) -> Mapping[str, InputsByPlaybook]:
    """Return the inputs that profiles give *hosts* for *playbook* and the playbooks that it includes.

    Hosts without any are left out, and so are the inputs *given* by the user, which count before them.  Raises
    ConfigError with every mistake in the profiles of *inventory*.
    """
    if not inventory.profiles:
        return {}
    declared = {part.playbook: part.inputs for part in playbook.parts} | {playbook.name: playbook.inputs}
    mask = Masking((*inventory.secrets, *secrets_in([each.inputs for each in inventory.profiles])))
    if problems := [one for each in inventory.profiles for one in _mistakes(each, declared, mask)]:
        raise ConfigError(*problems)
    found: dict[str, dict[str, dict[str, Json]]] = {}
    fixed = {book: _given_everywhere(book, playbook) for book in declared} | {playbook.name: {*given}}
    wanted = {host.name for host in hosts}
    for profile in inventory.profiles:
        for book, inputs in profile.inputs.items():
            taken = {name: it for name, it in inputs.items() if name not in fixed.get(book, ())}
            for host in profile.hosts if book in declared and taken else ():
                if host in wanted:
                    found.setdefault(host, {}).setdefault(book, {}).update(taken)
    return found


def _given_everywhere(book: str, playbook: Playbook) -> Collection[str]:
    """Return the inputs that every include of *book* in *playbook* gives, so that those of a profile do not count."""
    given = [frozenset(part.given) for part in playbook.parts if part.playbook == book]
    return frozenset.intersection(*given) if given else frozenset()


def _mistakes(profile: Profile, declared: Mapping[str, Sequence[Input]], mask: Masking) -> Iterator[Problem]:
    """Yield a problem for each input of *profile* that a playbook of *declared* does not have, or not with this value;
    and for a name that resembles that of a playbook.
    """
    for book, inputs in profile.inputs.items():
        known = {each.name: each for each in declared.get(book, ())}
        for name, value in inputs.items():
            place = profile.places[book, name]
            at = f"profiles.{profile.name}.inputs.{book}"
            if book not in declared:
                names = {path.stem for path in playbook_files()}
                if book not in names and (hint := suggest(book, {*names, *declared}, "")):
                    yield _at(place, f"{at}: there is no such playbook", hint)
                break
            if name not in known:
                yield _at(place, f"{at}.{name}: {book} has no such input", suggest(name, known))
            elif known[name].hides(value) or masked({"input": value}, mask) != {"input": value}:
                yield _at(
                    place,
                    f"{at}.{name}: the value is secret, or contains a secret",
                    "a profile is no place for a secret: use `secrets:`",
                )
            else:
                for words in faults(known[name], value):
                    yield _at(place, f"{at}.{name}: {words}")


def _at(place: object, message: str, hint: str = "") -> Problem:
    where = {key: getattr(place, key) for key in ("file", "line", "column")}
    return Problem(**where, message=message, hint=hint)


def assignments(
    playbook: Playbook,
    inputs: Mapping[str, Json],
    inventory: Inventory,
    hosts: Sequence[Host],
    own: Mapping[str, InputsByPlaybook],
) -> Mapping[str, Assignment]:
    """Return what differs from *playbook* with *inputs* on each of *hosts*: by the inputs *own*, and by the limits of
    profiles.  Raises ConfigError.
    """
    made: dict[str, Assignment] = {}
    alike: dict[str, Assignment] = {}
    for host in hosts:
        limits = _limits_on(host.name, playbook.limits, inventory.profiles)
        values = own.get(host.name, {})
        if not values and limits == playbook.limits:
            continue
        key = json.dumps([to_json(values), to_json(limits)], sort_keys=True)
        if key not in alike:
            alike[key] = _assignment(replace(playbook, limits=limits), inputs, values, inventory)
        made[host.name] = alike[key]
    return made


def _assignment(
    playbook: Playbook, inputs: Mapping[str, Json], own: InputsByPlaybook, inventory: Inventory
) -> Assignment:
    parts = inputs_of_parts(playbook, {**inputs, **own.get(playbook.name, {})}, own)
    if problems := problems_with_inputs_given(playbook, discover(), parts):
        raise ConfigError(*problems)
    return Assignment(playbook=with_places(playbook, parts, inventory), parts=parts)


def _limits_on(host: str, limits: Limits, profiles: Sequence[Profile]) -> Limits:
    """Return the stricter of *limits* and those of the *profiles* of *host*."""
    for profile in profiles:
        if host in profile.hosts:
            deadlines = [each for each in (limits.host_deadline, profile.host_deadline) if each]
            limits = replace(
                limits,
                host_deadline=min(deadlines, default=0.0),
                cooldown=max(limits.cooldown, profile.cooldown),
            )
    return limits
