"""Order a run from the workers of one site: everything that it needs there, in one signed text.

It has no secret value: those of ``secrets:``, SSH keys and passwords are read at the site.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import field, replace
from datetime import UTC, datetime
from pathlib import Path

from runbook.codec import from_json, to_json
from runbook.commands.history.undo_steps import as_written, assignments_of_undo, playbook_of_undo
from runbook.commands.input_files import FilesRead, parse_checked
from runbook.commands.nobody import Nobody
from runbook.commands.options import Connecting, GivenInputs, RunOptions, made_from
from runbook.commands.order import Order, hidden_inputs, secrets_of_order
from runbook.commands.plans.approvals import checked, sign
from runbook.commands.playbook_order import order_of
from runbook.commands.rests_on import origin_of
from runbook.commands.sources import Sources
from runbook.dataclass import dataclass
from runbook.errors import ConfigError, Problem
from runbook.execution.fleet.bounds import Bounds
from runbook.plugins import discover
from runbook.secrets.masking import Masking, masked
from runbook.text_files import read_text
from runbook.values.earlier_change import EarlierChange
from runbook.values.inventory import Host, Inventory, Selection
from runbook.values.plan import Finding
from runbook.values.playbook import Playbook, Share, Step
from runbook.values.run_origin import InputsByPlaybook, RunOrigin
from runbook.values.shown import ShownHost
from runbook.values.types import Json
from runbook.version import __version__

NAMESPACE = "runbook-order"
"""The purpose of a signature: an approval of a plan counts for no order."""
FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteOrder:
    """The order for one site, in one phase of a run."""

    format: int = FORMAT
    engine_version: str = __version__
    run: str
    site: str
    phase: str
    """``probe``: plan the hosts; ``apply``: plan and change them."""
    consent: str
    """``yes``, ``shown`` (no more than *shown*), or ``none``."""
    not_after: str
    """The time after which no worker begins it: ISO 8601."""
    by: str
    started_at: str
    reason: str = ""
    deadline: str = ""
    """The time at which the run ends: ISO 8601; empty: no limit."""
    playbook: str
    digest: str
    texts: Mapping[str, str]
    """The texts of the playbook and of the files that it uses, by path."""
    opened: Mapping[str, str] = field(default_factory=dict)
    """The path of each included playbook, and of each file that a step uses: by its name and the playbook that names
    it, with a newline between them.
    """
    inputs: Mapping[str, Json]
    profile_inputs: Mapping[str, InputsByPlaybook]
    inventory: Inventory
    hosts: tuple[str, ...]
    """The hosts to work on; the inventory may have others, which steps name with ``on``."""
    options: Mapping[str, Json]
    breaker: int = 0
    """The number of hosts of the limit ``breaker``, over all sites; 0: there is none."""
    bounds: Bounds | None = None
    """The limits of the whole run, on all its sites; None: there are none."""
    shown: Mapping[str, ShownHost] = field(default_factory=dict)
    """The plan that the person has seen and agreed to, by host."""
    seen: Mapping[str, tuple[Finding, ...]] = field(default_factory=dict)
    """The findings of that plan, by host."""
    earlier: Mapping[str, tuple[EarlierChange, ...]] = field(default_factory=dict)
    """The changes of the runs that this one continues, by host."""
    chain: tuple[str, ...] = ()
    """The ids of these runs, the first one first."""
    repeats: tuple[str, ...] = ()
    """The steps that are sent again although their outcome in these runs is unknown."""
    planned_in: Mapping[str, Json] = field(default_factory=dict)
    """The run that made the saved plan which is applied; expressions mean it by ``run.``."""
    undoes: str = ""
    """The run that this one undoes; then no file is its playbook."""
    undo: Mapping[str, tuple[Step, ...]] = field(default_factory=dict)
    """The steps that undo it, by host."""

    def text(self) -> str:
        """Return the text that is signed."""
        return json.dumps(to_json(self), sort_keys=True, separators=(",", ":"))


class ReadTexts(FilesRead):
    """The files that a playbook is made from, with their texts."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: dict[str, str] = {}
        self.opened: dict[str, str] = {}

    def note(self, path: Path, text: str) -> None:
        """Note that *text* was read from *path*."""
        super().note(path, text)
        self.texts[str(path.absolute())] = text

    def include(self, name: str, file: str) -> tuple[str, str]:
        """Read an included playbook."""
        found, text = super().include(name, file)
        self.opened[f"{name}\n{file}"] = found
        return found, text

    def beside(self, name: str, playbook: str, included: bool = False) -> str:
        """Read a file that a step uses."""
        self.opened[f"{name}\n{playbook}"] = str(Path(playbook).resolve().parent / name)
        return super().beside(name, playbook, included)


def texts_of(path: str, digest: str) -> ReadTexts:
    """Return the texts of the playbook in the file *path*.  Raises ConfigError if it is not as it was read before."""
    read = ReadTexts()
    text = read_text(Path(path))
    read.note(Path(path), text)
    book = parse_checked(text, Path(path), discover(), read.include, read.beside)
    if book.digest != digest:
        raise ConfigError(f"{path} has changed while it was read: try again")
    return read


def refuse_secrets(order: Order) -> None:
    """Raise ConfigError if *order* has a secret that would travel with it."""
    given = sorted(name for name in hidden_inputs(order) if order.inputs.get(name) not in (None, ""))
    problems = [
        Problem(
            message=f"the input {name} is secret, and would be written to the cluster's database",
            hint="give it to the playbook as one of its `secrets:`, which are read at the site",
        )
        for name in given
    ]
    with_proxy = [host.name for host in order.selection.hosts if host.proxy_env]
    problems += [Problem(message=f"{name}: the secret of its tunnel cannot travel to a site") for name in with_proxy]
    if not problems and order.inventory.secrets:
        message = "the inventory has secret values in plain text, which must not travel to a site"
        problems.append(Problem(message=message, hint="write under `secrets:` where each site finds them"))
    if problems:
        raise ConfigError(*problems)


def signed_text(order: SiteOrder, secrets: Order, key: str) -> tuple[str, str]:
    """Return the text of *order* and its signature; *secrets*: the order that it is made from.  Raises ConfigError."""
    text = order.text()
    mask = Masking(secrets_of_order(secrets))
    if mask(text) != text:
        raise ConfigError("the playbook, its inputs or the inventory contain a secret: it must not travel to a site")
    return text, sign(text.encode(), key, NAMESPACE)


def read_order(content: str, signature: str, site: str, signers: Path) -> tuple[SiteOrder, str]:
    """Return the order in *content*, and the person who signed it.

    Raises ConfigError if nobody in *signers* did, or if it is for another site, too old, or of another version.
    """
    with tempfile.TemporaryDirectory(prefix="runbook-") as folder:
        (file := Path(folder, "order.sig")).write_text(signature)
        good, refused = checked(content.encode(), [str(file)], signers, NAMESPACE)
    if not good:
        raise ConfigError(f"nobody whom this site believes has signed the order: {refused[0].why}")
    try:
        tree = json.loads(content)
        version = tree.get("engine_version") if isinstance(tree, dict) else None
        if version != __version__:
            raise ConfigError(f"the order was made by version {version}, and this worker is version {__version__}")
        order = from_json(SiteOrder, tree)
    except ValueError as error:
        raise ConfigError(f"the order is not one that this worker understands: {str(error)[:200]}") from error
    if order.site != site:
        raise ConfigError(f"the order is for the site {order.site}, and this worker is at {site}")
    if datetime.fromisoformat(order.not_after) < datetime.now(UTC):
        raise ConfigError(f"the order was good until {order.not_after}")
    return order, good[0].principals[0]


def order_at_site(order: SiteOrder, hosts: tuple[str, ...], connecting: Connecting) -> Order:
    """Return the order for *hosts*, which are some of its hosts, as a run at the site carries it out.

    Raises ConfigError.
    """

    book = _playbook(order)
    if book.digest != order.digest and not order.undoes:
        raise ConfigError("the playbook in the order is not the one that the order names")
    inventory = replace(order.inventory, hosts=tuple(_at_home(host) for host in order.inventory.hosts))
    by_name = {host.name: host for host in inventory.hosts}
    options = made_from(RunOptions, order.options)
    asked = options.connecting
    connecting = replace(
        connecting,
        parallel=min(connecting.parallel, asked.parallel),
        strict_host_keys=connecting.strict_host_keys or asked.strict_host_keys,
        connect_timeout=asked.connect_timeout or connecting.connect_timeout,
        shell_timeout=asked.shell_timeout or connecting.shell_timeout,
    )
    options = replace(options, connecting=connecting, yes=True)
    sources = Sources(
        name=order.playbook,
        playbook=book,
        inventory=inventory,
        inputs=order.inputs,
        profile_inputs={name: given for name, given in order.profile_inputs.items() if name in hosts},
        given=GivenInputs(),
        selection=Selection(hosts=tuple(by_name[name] for name in hosts)),
    )
    made = order_of(sources, options, Nobody(), [])
    own = assignments_of_undo(book, {name: steps for name, steps in _steps_of(order).items() if name in hosts})
    limit = made.playbook.limits.breaker
    if limit and order.breaker:  # a percentage is of the whole inventory, which the site does not have
        limits = replace(made.playbook.limits, breaker=replace(limit, hosts=Share(number=order.breaker)))
        made = replace(made, playbook=replace(made.playbook, limits=limits))
    return replace(
        made,
        assignments=own if order.undoes else made.assignments,
        earlier={name: it for name, it in order.earlier.items() if name in hosts},
        chain=order.chain,
        repeats=frozenset(order.repeats),
        planned_in=order.planned_in,
    )


def _playbook(order: SiteOrder) -> Playbook:
    """Return the playbook in *order*.  Raises ConfigError."""
    if order.undoes:
        return playbook_of_undo(order.undoes, _steps_of(order))

    def include(name: str, file: str) -> tuple[str, str]:
        place = order.opened[f"{name}\n{file}"]
        return place, order.texts[_absolute(place)]

    return parse_checked(
        order.texts[_absolute(order.playbook)],
        Path(order.playbook),
        discover(),
        include,
        lambda name, file, _: include(name, file)[1],
        called=f"{order.site}:{order.playbook}",
    )


def _steps_of(order: SiteOrder) -> Mapping[str, tuple[Step, ...]]:
    """Return the steps of an undo, by host; nothing in them is a template."""
    return {name: tuple(map(as_written, steps)) for name, steps in order.undo.items()}


def origin_at_site(signed: SiteOrder, order: Order, command: str) -> RunOrigin:
    """Return the origin of a run that *command* carries out or follows: *order*, made from *signed*."""
    given = made_from(RunOptions, signed.options)
    return replace(
        origin_of(order, command, diagnose_only=given.diagnoses_only),
        by=signed.by,
        tags=given.tags,
        skip_tags=given.skip_tags,
        resumes=signed.chain[-1] if signed.chain else "",
        undoes=signed.undoes,
    )


def _absolute(path: str) -> str:
    return str(Path(path).absolute())


def _portable(host: Host) -> Host:
    """Return *host* with `~` for this user's home in its key's path: the key is one of the site."""
    home = f"{Path.home()}/"
    key = f"~/{host.key.removeprefix(home)}" if host.key.startswith(home) else host.key
    return replace(host, key=key, via=_portable(host.via) if host.via else None)


def _at_home(host: Host) -> Host:
    """Return *host* with the path of its key at the site."""
    key = str(Path(host.key).expanduser()) if host.key else ""
    return replace(host, key=key, via=_at_home(host.via) if host.via else None)


def inventory_of(order: Order, hosts: tuple[Host, ...]) -> Inventory:
    """Return the part of the inventory of *order* that a site with *hosts* needs, without secrets."""
    named = {step.on for step in order.playbook.steps if step.on}
    elsewhere = tuple(host for host in order.inventory.hosts if host.name in named and host not in hosts)
    there = {host.name for host in (*hosts, *elsewhere)}
    mask = Masking(order.inventory.secrets)
    whole = replace(
        order.inventory,
        hosts=tuple(_portable(host) for host in (*hosts, *elsewhere)),
        groups={
            name: kept
            for name, members in order.inventory.groups.items()
            if (kept := tuple(member for member in members if member in there))
        },
        secrets=(),
        profiles=tuple(
            replace(profile, hosts=tuple(name for name in profile.hosts if name in there))
            for profile in order.inventory.profiles
        ),
    )
    return masked(whole, mask) if order.inventory.secrets else whole
