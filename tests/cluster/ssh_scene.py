"""Hosts that are reached over SSH: several sshd on many addresses of loopback, and a lock directory for each host."""

from __future__ import annotations

import os
import signal
import subprocess
from dataclasses import dataclass, field

from tests.cluster.site_scene import Scene, Worker, verdicts
from tests.support.program import PROGRAM, Said
from tests.support.sshd import free_port, make_key
from tests.support.waiting import until

TOY = """\
name: toy
about: A toy that marks each host, and says when each write begins and ends.
inputs:
  place: {about: The directory of the marks., type: string, required: true}
  takes: {about: The seconds that a mark takes., type: number, default: 0}
diagnose:
  - {id: mark, name: The mark, command: {script: 'cat "$1.mark" 2>/dev/null || echo none', params: ["{{ inputs.place }}/{{ host.name }}"]}}
findings:
  - {id: unmarked, when: "'done' not in mark.stdout", severity: error, say: "{{ host.name }} has no mark", advise: [Mark it.]}
LIMITSremediate:
  - id: write
    name: Mark the host
    timeout: 60s
    command:
      check: {params: ["{{ inputs.place }}/{{ host.name }}"], script: 'test -e "$1.mark"'}
      do:
        params: ["{{ inputs.place }}/{{ host.name }}", "{{ inputs.takes | string }}", "{{ inputs.place }}/log", "{{ host.name }}"]
        script: 'echo "$4 begin $(date +%s.%N) $$" >>"$3"; echo done >>"$1.mark"; sleep "$2"; echo "$4 end $(date +%s.%N) $$" >>"$3"'
  - id: clean
    name: Clean up
    always: true
    command:
      check: {params: ["{{ inputs.place }}/{{ host.name }}"], script: 'test -e "$1.clean"'}
      do: {params: ["{{ inputs.place }}/{{ host.name }}"], script: 'echo cleaned >>"$1.clean"'}
"""


@dataclass
class SshScene(Scene):
    """*ssh*: over SSH; otherwise toy hosts of this machine.  *limits*: those of the playbook."""

    ssh: bool = False
    limits: str = ""
    servers: list[subprocess.Popen] = field(default_factory=list)

    def made(self) -> SshScene:
        super().made()
        self.limited(self.limits)
        if self.ssh:
            self._sshd()
        return self

    def limited(self, limits: str) -> None:
        (self.folder / "toy.yaml").write_text(TOY.replace("LIMITS", f"limits: {{{limits}}}\n" if limits else ""))

    def _sshd(self) -> None:
        folder = self.folder / "sshd"
        folder.mkdir()
        os.makedirs("/run/sshd", exist_ok=True)
        make_key(folder / "host_key")
        (folder / "authorized_keys").write_text(self.key.with_suffix(".pub").read_text())
        rows, names = [], list(self.hosts)
        for number, first in enumerate(range(0, len(names), 16)):  # an sshd listens on 16 sockets at most
            address = [f"127.77.{1 + at // 200}.{1 + at % 200}" for at in range(len(names))]
            port, matches = free_port(address[first]), []
            lines = [f"Port {port}", f"HostKey {folder}/host_key", f"AuthorizedKeysFile {folder}/authorized_keys",
                     "PidFile none", "PasswordAuthentication no", "KbdInteractiveAuthentication no", "PermitRootLogin yes",
                     "StrictModes no", "UsePAM no", "MaxStartups 500:30:1000"]  # fmt: skip
            for at in range(first, min(first + 16, len(names))):
                name = names[at]
                lines.append(f"ListenAddress {address[at]}")
                locks = self.folder / "hostlocks" / name
                locks.mkdir(parents=True)
                locks.chmod(0o700)
                (locks / ".runbook-locks").touch()
                matches += [f"Match LocalAddress {address[at]}", f"  SetEnv RUNBOOK_LOCK_PLACES={locks}"]
                rows.append(
                    f"  {name}: {{ssh_host: {address[at]}, ssh_port: {port}, ssh_user: root, ssh_key: {self.key},"
                    f" site: {self.hosts[name]}, rack: r{at % 3}}}"
                )
            config, said = folder / f"sshd_config-{number}", folder / f"log-{number}"
            config.write_text("\n".join([*lines, *matches, ""]))
            with said.open("wb") as log:
                self.servers.append(subprocess.Popen(["/usr/sbin/sshd", "-D", "-e", "-f", str(config)], stderr=log))
            wanted = len(matches) // 2
            until(
                lambda it=said, wanted=wanted: it.read_text().count("Server listening on") >= wanted,
                within=30,
            )
        (self.folder / "hosts.yaml").write_text("\n".join(["hosts:", *rows, ""]))

    def log(self) -> list[tuple[str, str, float, str]]:
        path = self.folder / "marks" / "log"
        rows = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
        return [(host, what, float(at), pid) for host, what, at, pid in rows]

    def clear(self) -> None:
        for path in (self.folder / "marks").glob("*"):
            path.unlink()

    def staff(self, each: int = 1, *words: str) -> list[Worker]:
        """As many workers at each site."""
        return [self.worker(site, "--parallel", "2", *words) for site in ("berlin", "oslo") for _ in range(each)]

    def works_on(self) -> list[str]:
        """What is wrong when the same workers do one more run."""
        self.clear()
        said = ended(self.start("--yes"))
        return broken_promises(self, said) + [
            f"then {host}: {word}" for host, word in verdicts(said).items() if word != "resolved"
        ]

    def cleaned(self) -> set[str]:
        return {path.stem for path in (self.folder / "marks").glob("*.clean")}

    def close(self) -> None:
        for each in self.workers:
            if each.process.poll() is None:
                os.killpg(each.process.pid, signal.SIGCONT)
        super().close()
        for server in self.servers:
            server.kill()
            server.wait()

    def attach(self, run: str, *words: str, **keys) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*PROGRAM, "attach", run, "--output", "json", *words], env={**os.environ, **self.environment, **keys},
            cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def last_run(self) -> str:
        rows = self.cluster.sql("SELECT id FROM runbook.run ORDER BY at DESC LIMIT 1")
        return rows[0][0] if rows else ""


def highest(log, groups=lambda host: "all") -> dict[str, int]:
    """The maximum number of writes that were under way at once, by group; a write without an end counts for ever."""
    now: dict[str, set] = {}
    most: dict[str, int] = {}
    for host, what, _, pid in sorted(log, key=lambda it: it[2]):
        of = now.setdefault(groups(host), set())
        (of.add if what == "begin" else of.discard)((host, pid))
        most[groups(host)] = max(most.get(groups(host), 0), len(of))
    return most


def ended(process: subprocess.Popen[str], timeout: float = 300) -> Said:
    """What a client says that ends by itself."""
    try:
        out, err = process.communicate(timeout=timeout)
    finally:
        process.kill()
    return Said(process.returncode, out, err)


def broken_promises(scene: SshScene, said: Said) -> list[str]:
    """What a run has promised and not kept: a verdict for each host, one write at most, none that a verdict denies."""
    hosts, found, marks, bad = scene.hosts, verdicts(said), scene.marks(), []
    if set(found) != set(hosts):
        bad.append(f"no verdict: {sorted(set(hosts) - set(found))[:10]}")
    for host, count in marks.items():
        if count > 1:
            bad.append(f"{host} written {count} times")
    for host in hosts:
        word, count = found.get(host), marks.get(host, 0)
        if word in ("resolved", "healthy") and count != 1:
            bad.append(f"{host}: {word} with {count} writes")
        if word in ("not_started",) and count:
            bad.append(f"{host}: {word} although written")
    return bad
