"""Probe, plan and apply for the watcher: each is the program ``runbook`` itself, as a person would start it.

A run that changes a host outlives the watcher: it writes to a file of its own, which is locked while it is at work.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from runbook.commands.plans.document import SavedPlan, parsed
from runbook.commands.plans.usage import Usage
from runbook.commands.watch.options import ServeOptions
from runbook.commands.watch.reading_results import Outcome, outcome_of, reading_of, readings_in
from runbook.errors import ConfigError
from runbook.records.private_folder import PrivateFolder
from runbook.records.process_identity import lives
from runbook.text.printable import on_one_line
from runbook.values.plan import Presence
from runbook.values.result import Status
from runbook.values.types import seconds
from runbook.values.watch_rule import LONGEST_WITHIN, Rule
from runbook.watch.events import Ended, NotProposed, Probed, Proposed, Reading, WatchEvent
from runbook.watch.memory import Proposal, Trigger

WITHIN = 1800.0
"""Seconds that a probe or a plan may take; then it is ended, and nothing of it is known."""
GRACE = 30.0
"""Seconds that a program has to end by itself."""
LONGEST_OUTPUT = 512 * 1024 * 1024
LONGEST_WHY = 500
LONGEST_ARGUMENT = 100_000


class Programs:
    """Does the watcher's work in the background; *heard* gets the event that each call leads to."""

    def __init__(self, folder: PrivateFolder, options: ServeOptions, heard: Callable[[WatchEvent], None]) -> None:
        """Prepare the directories of plans and outputs below *folder*.  Raises OSError."""
        self._options, self._heard = options, heard
        self.plans, self._outputs = PrivateFolder(folder.path / "plans"), PrivateFolder(folder.path / "outputs")
        for each in (self.plans, self._outputs):
            each.make()
        for folder_of, beginnings in ((self.plans, ("new-",)), (self._outputs, ("inputs-", "out-"))):
            for name in folder_of.names(""):
                if name.startswith(beginnings):  # of a watcher that was killed
                    folder_of.remove(name)
        self._lock = threading.Lock()
        self._probes: set[subprocess.Popen[bytes]] = set()
        self._runs: set[str] = set()
        """The digests of the plans that programs of this watcher carry out."""
        self._ending = False

    def probe(self, rule: Rule, hosts: tuple[str, ...], *, whole: bool) -> None:
        """Probe *hosts* for *rule*."""

        def unknown(why: str) -> Probed:
            return _probed_event(rule, {}, hosts, why, whole=whole)

        self._begin(f"probe {rule.name}", lambda: self._probed(rule, hosts, whole=whole), unknown)

    def plan(self, rule: Rule, trigger: Trigger) -> None:
        """Make a plan for the host of *trigger*."""
        name = f"plan {rule.name} {trigger.host}"
        self._begin(name, lambda: self._planned(rule, trigger), lambda why: _no_plan(rule, trigger, why))

    def apply(self, rule: Rule, proposal: Proposal) -> None:
        """Carry out *proposal*."""

        def ended(why: str) -> Ended:
            return self._end(rule.name, proposal.host, proposal.digest, why)

        self._begin(f"apply {proposal.digest[:8]}", lambda: self._applied(rule, proposal), ended)

    def follow(self, rule: str, host: str, digest: str) -> None:
        """Report the end of a run that an earlier watcher began: once it is over, or at once if it is."""

        def ended(why: str) -> Ended:
            return self._end(rule, host, digest, why)

        with self._lock:
            if digest in self._runs:
                return  # it is followed already
        self._begin(f"follow {digest[:8]}", lambda: self._followed(rule, host, digest), ended)

    def end(self) -> None:
        """End all probes; runs that change a host go on by themselves."""
        with self._lock:
            self._ending = True
            for process in self._probes:
                _signal(process, signal.SIGINT)

    def stop(self, digest: str, tell: Callable[[], None]) -> bool:
        """Call *tell*, then interrupt the run of the plan *digest*, as Ctrl-C does.

        Returns False if no run of it has begun on this machine, or it is over.
        """
        found = self._outcome(digest)
        if found.process is None or found.is_over:
            return False
        try:
            number = os.pidfd_open(found.process.pid)
        except OSError:
            return False
        try:
            if not lives(found.process):  # after it was opened: it cannot become another one any more
                return False
            tell()
            signal.pidfd_send_signal(number, signal.SIGINT)
            return True
        except ProcessLookupError:  # it has ended in this very moment
            return False
        finally:
            os.close(number)

    def prune(self, now: float) -> None:
        """Remove old plans and outputs; a plan has expired, and its run has ended, long before."""
        for folder, ending in ((self.plans, ".json"), (self._outputs, ".jsonl")):
            for entry in folder.entries(ending):
                if now - entry.changed / 1e9 > 2 * LONGEST_WITHIN:
                    folder.remove(entry.name)

    def _begin(self, name: str, work: Callable[[], WatchEvent], otherwise: Callable[[str], WatchEvent]) -> None:
        def run() -> None:
            try:
                event = work()
            except Exception as error:  # whatever it is, somebody waits for the event
                event = otherwise(f"{type(error).__name__}: {error}")
            self._heard(event)

        threading.Thread(target=run, name=name, daemon=True).start()

    def _probed(self, rule: Rule, hosts: tuple[str, ...], *, whole: bool) -> Probed:
        found: dict[str, Reading] = {}
        try:
            why = self._readings(rule, hosts, found)
        except (OSError, ValueError, ConfigError) as error:
            why = str(error)
        return _probed_event(rule, found, hosts, why, whole=whole)

    def _readings(self, rule: Rule, hosts: tuple[str, ...], found: dict[str, Reading]) -> str:
        """Probe *hosts*, and put what they answer into *found*.  Returns why the others have no answer."""
        why = ""
        with self._inputs(rule) as inputs:
            words = ("run", rule.playbook, "--dry-run", "--no-record", "--output", "jsonl", *inputs)
            for portion in _portions(hosts):
                out, why = self._output(words, portion)
                found |= {reading.host: reading for reading in readings_in(rule, iter(out.splitlines()))}
        return why or "it was not probed"

    def _planned(self, rule: Rule, trigger: Trigger) -> Proposed | NotProposed:
        name = f"new-{secrets.token_hex(8)}.json"
        try:
            with self._inputs(rule) as inputs:
                out = ("--out", str(self.plans.path / name), "--expires", f"{rule.approve.within:.0f}s")
                words = ("plan", rule.playbook, *out, "--output", "json", *self._reason(rule), *inputs)
                _, why = self._output(words, (trigger.host,))
            raw = self.plans.read(name)
            saved = parsed(raw.encode(), name)
            self.plans.rename(name, f"{saved.digest}.json")
        except FileNotFoundError:
            return _no_plan(rule, trigger, why or "the plan was not written")
        except (OSError, ValueError, ConfigError) as error:
            return _no_plan(rule, trigger, str(error))
        return self._proposed(rule, trigger, saved)

    def _proposed(self, rule: Rule, trigger: Trigger, saved: SavedPlan) -> Proposed | NotProposed:
        host = next((each for each in saved.result.hosts if each.host == trigger.host), None)
        reading = reading_of(rule, host) if host else None
        if host is None or reading is None or not reading.changes:
            return _no_plan(rule, trigger, f"the plan changes nothing on {trigger.host}")
        if reading.presence is not Presence.PRESENT:
            return _no_plan(rule, trigger, "the fault was not seen when the plan was made")
        summaries = [step.planned or step.name or step.id for step in host.steps if step.status is Status.WOULD_CHANGE]
        now = time.time()
        return Proposed(
            at=now,
            rule=rule.name,
            host=trigger.host,
            episode=trigger.episode,
            digest=saved.digest,
            file=str(self.plans.path / f"{saved.digest}.json"),
            until=now + rule.approve.within,
            risk=reading.risk,
            signature=reading.signature,
            say=on_one_line("; ".join(summaries), LONGEST_WHY),
            requester=trigger.by,
            rule_digest=rule.digest,
        )

    def _applied(self, rule: Rule, proposal: Proposal) -> Ended:
        file = self._outputs.path / f"{proposal.digest}.jsonl"
        agreed = f", approved by {', '.join(name for name, _ in proposal.approvals)}" if proposal.approvals else ""
        words = ("apply", proposal.file, "--yes", "--output", "jsonl", *self._reason(rule, agreed), *self._common())
        why = ""
        try:
            if parsed(self.plans.read(f"{proposal.digest}.json").encode(), proposal.file).digest != proposal.digest:
                return _not_begun(
                    rule, proposal, "the file of the plan has another content than the plan that was approved"
                )
            number = self._outputs.create(file.name)
            try:
                fcntl.flock(number, fcntl.LOCK_EX)  # the program holds it with its stdout, also when this one is gone
                process = self._started(words, number, subprocess.PIPE)
            finally:
                os.close(number)
            with self._lock:
                self._runs.add(proposal.digest)
            try:
                why = _last_line(process.communicate()[1])
            finally:
                with self._lock:
                    self._runs.remove(proposal.digest)
        except ConfigError as error:
            return _not_begun(rule, proposal, str(error))
        except OSError as error:
            why = str(error)
        return self._end(rule.name, proposal.host, proposal.digest, why)

    def _followed(self, rule: str, host: str, digest: str) -> Ended:
        file = self._outputs.path / f"{digest}.jsonl"
        with contextlib.suppress(FileNotFoundError), file.open("rb") as output:
            fcntl.flock(output, fcntl.LOCK_SH)  # waits as long as the program is at work
        return self._end(rule, host, digest, "the watcher was ended meanwhile")

    def _end(self, rule: str, host: str, digest: str, why: str) -> Ended:
        """Return what came of the plan *digest*; what is not known counts as changed, and as not cured."""
        found, is_used = self._outcome(digest), True
        if found.run and not found.is_over and self._options.through.workers:  # they go on without the one who ordered
            self._attach(found.run, digest)
            found = self._outcome(digest)
        with contextlib.suppress(ConfigError, OSError, ValueError):
            plan = parsed(self.plans.read(f"{digest}.json").encode(), digest)
            is_used = Usage().of(plan.plan) is not None
        verdict = found.verdict if found.is_over else "unknown" if is_used else f"not begun: {why}"
        words = on_one_line(verdict, LONGEST_WHY)
        return Ended(
            at=time.time(), rule=rule, host=host, digest=digest, run=found.run, verdict=words,
            cured=found.cured, changed=is_used, locked=found.locked,
        )  # fmt: skip

    def _outcome(self, digest: str) -> Outcome:
        with contextlib.suppress(FileNotFoundError), self._outputs.opened(f"{digest}.jsonl") as output:
            return outcome_of(line.decode(errors="replace") for line in output)
        return Outcome()

    def _attach(self, run: str, digest: str) -> None:
        """Follow *run* to its end; what it tells is appended to the output of the plan *digest*."""
        number = self._outputs.appending(f"{digest}.jsonl")
        records = self._options.recording.records
        words = ("attach", run, "--output", "jsonl", *(("--records", records) if records else ()))
        try:
            self._started(words, number, subprocess.DEVNULL).wait()
        finally:
            os.close(number)

    @contextlib.contextmanager
    def _inputs(self, rule: Rule) -> Iterator[tuple[str, ...]]:
        """Give the inputs of *rule* in a file, so that no other user reads them in the list of processes."""
        name = f"inputs-{secrets.token_hex(8)}.json"
        self._outputs.write(name, json.dumps(dict(rule.inputs)))
        try:
            yield ("--inputs", str(self._outputs.path / name)) if rule.inputs else ()
        finally:
            self._outputs.remove(name)

    def _reason(self, rule: Rule, more: str = "") -> tuple[str, ...]:
        return ("--reason", f"rule {rule.name}{more}")

    def _common(self) -> tuple[str, ...]:
        connecting, choosing = self._options.connecting, self._options.choosing
        words = [word for path in choosing.inventory for word in ("--inventory", path)]
        if connecting.strict_host_keys:
            words.append("--strict-host-keys")
        if connecting.become_password_file:
            words += ["--become-password-file", connecting.become_password_file]
        for option, value in (
            ("--connect-timeout", connecting.connect_timeout),
            ("--shell-timeout", connecting.shell_timeout),
        ):
            words += [option, value] if value else []
        if self._options.recording.records:
            words += ["--records", self._options.recording.records]
        through = self._options.through
        if through.workers:
            words += ["--start-within", through.start_within] if through.start_within else []
            words += ["--sign-with", through.sign_with] if through.sign_with else []
        return tuple(words)

    def _output(self, words: Sequence[str], hosts: Sequence[str]) -> tuple[str, str]:
        """Return what a program that changes nothing prints, and the last line of its errors."""
        name = f"out-{secrets.token_hex(8)}"
        number = self._outputs.create(name)
        given = ("--hosts", ",".join(hosts), "--parallel", str(self._options.connecting.parallel))
        via = ("--via", self._options.through.via)  # a plan remembers it, so that `apply` has no such option
        try:
            process = self._started((*words, *given, *via, *self._common()), number, subprocess.PIPE)
            with self._lock:
                self._probes.add(process)
                if self._ending:
                    _signal(process, signal.SIGINT)
            try:
                why = _ended_in_time(process)
            finally:
                with self._lock:
                    self._probes.discard(process)
            with self._outputs.opened(name) as output:
                return output.read(LONGEST_OUTPUT).decode(errors="replace"), why
        finally:
            os.close(number)
            self._outputs.remove(name)

    def _started(self, words: Sequence[str], stdout: int, stderr: int) -> subprocess.Popen[bytes]:
        argv = (sys.executable, "-m", "runbook", *words)
        environment = None
        if place := self._options.through.cluster:  # it may have a password, which the list of processes must not show
            from runbook.cluster.database import PLACE

            environment = {**os.environ, PLACE: place}
        return subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, env=environment, start_new_session=True
        )


def _probed_event(rule: Rule, found: Mapping[str, Reading], hosts: Sequence[str], why: str, *, whole: bool) -> Probed:
    """Return the event of a probe of *hosts*; those that are not in *found* have no answer, because of *why*."""
    words = on_one_line(why, LONGEST_WHY)
    readings = tuple(found.get(host) or Reading(host=host, presence=Presence.UNKNOWN, say=words) for host in hosts)
    well = sum(each.presence is Presence.ABSENT for each in readings)
    return Probed(at=time.time(), rule=rule.name, readings=readings, well=well, whole=whole)


def _not_begun(rule: Rule, proposal: Proposal, why: str) -> Ended:
    words = on_one_line(f"not begun: {why}", LONGEST_WHY)
    return Ended(
        at=time.time(), rule=rule.name, host=proposal.host, digest=proposal.digest, run="", verdict=words, cured=False,
        changed=False,
    )  # fmt: skip


def _no_plan(rule: Rule, trigger: Trigger, why: str) -> NotProposed:
    words = on_one_line(why, LONGEST_WHY)
    return NotProposed(at=time.time(), rule=rule.name, host=trigger.host, episode=trigger.episode, why=words)


def _portions(hosts: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield *hosts* in portions whose names fit into one argument of a program, which has at most 128 KiB."""
    portion: list[str] = []
    size = 0
    for host in hosts:
        if portion and size + len(host.encode()) + 1 > LONGEST_ARGUMENT:
            yield tuple(portion)
            portion, size = [], 0
        portion.append(host)
        size += len(host.encode()) + 1
    if portion:
        yield tuple(portion)


def _ended_in_time(process: subprocess.Popen[bytes]) -> str:
    for wait, number in ((WITHIN, signal.SIGINT), (GRACE, signal.SIGKILL), (GRACE, signal.SIGKILL)):
        try:
            return _last_line(process.communicate(timeout=wait)[1])
        except subprocess.TimeoutExpired:
            _signal(process, number)
    return f"it did not end within {seconds(WITHIN)}"


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    """Send the signal *number* to a program of ours that has not been waited for, so that its id is still its own."""
    if process.poll() is None:
        process.send_signal(number)


def _last_line(stderr: bytes | None) -> str:
    lines = (stderr or b"").decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else ""
