"""A real Docker engine of a test's own: a daemon with its own socket, and its files on a small disk of their own."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.real_processes import Machine
from tests.support.waiting import soon

TOOLS = ["sh", "sleep", "tail", "cat", "echo", "true", "false", "kill", "dd", "mkdir", "printf", "env", "seq"]


@dataclass
class Engine:
    """A running dockerd that nobody else uses."""

    folder: Path
    name: str
    process: subprocess.Popen | None = None
    base: str = ""
    """The id of an image with busybox in it, called base:1."""
    counter: Iterator[int] = field(default_factory=lambda: iter(range(1, 10**6)))

    @property
    def host(self) -> str:
        """For DOCKER_HOST."""
        return f"unix://{self.folder}/docker.sock"

    @property
    def root(self) -> Path:
        """Where it keeps its files."""
        return self.folder / "data"

    def start(self) -> None:
        """Start dockerd, and wait until it answers."""
        with (self.folder / "log").open("ab") as log:
            process = self.process = subprocess.Popen(
                [*("setpriv", "--pdeathsig", "TERM"), "dockerd", "--data-root", str(self.root), "--exec-root", str(self.folder / "exec"),
                 "--pidfile", str(self.folder / "docker.pid"), "-H", self.host, "--bridge=none", "--iptables=false", "--ip6tables=false",
                 "--containerd-namespace", self.name, "--containerd-plugins-namespace", f"{self.name}-plugins"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        soon(lambda: process.poll() is not None or self.run("version", check=False).returncode == 0)
        if process.poll() is not None or self.run("version", check=False).returncode != 0:
            raise RuntimeError((self.folder / "log").read_text())

    def stop(self) -> None:
        """End dockerd, and with it the containers that run."""
        if self.process:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(timeout=60)

    def run(self, *words: str, check: bool = True, **keys) -> subprocess.CompletedProcess:
        """The docker command."""
        env = {**os.environ, "DOCKER_HOST": self.host, **keys.pop("env", {})}
        done = subprocess.run(["docker", *words], capture_output=True, text=True, check=False, env=env, **keys)
        assert not check or done.returncode == 0, (words, done.stderr)
        return done

    def __call__(self, *words: str, **keys) -> str:
        """What docker prints."""
        return self.run(*words, **keys).stdout.strip()

    def dies(self, *words: str, options: tuple[str, ...] = (), name: str = "", image: str = "base:1") -> str:
        """A container that has run and ended, and its name."""
        name = name or f"c{next(self.counter)}"
        done = self.run("run", "--name", name, "--network", "none", *options, image, *(words or ("true",)), check=False)
        assert name in self.names(), done.stderr
        return name

    def lives(self, *options: str, name: str = "", image: str = "base:1") -> str:
        """A container that runs, and its name."""
        name = name or f"c{next(self.counter)}"
        self("run", "-d", "--name", name, "--network", "none", *options, image, "sleep", "900")
        return name

    def build(self, tag: str, *steps: str, kit: bool = False) -> str:
        """An image made from base:1 by RUN steps, by either builder, and its id."""
        lines = "\n".join(["FROM base:1", *(f"RUN {it}" for it in steps)])
        with tempfile.TemporaryDirectory() as place:
            (Path(place) / "Dockerfile").write_text(lines)
            program = "/usr/bin/docker" if kit and Path("/usr/bin/docker").exists() else "docker"
            env = {**os.environ, "DOCKER_HOST": self.host, "DOCKER_BUILDKIT": str(int(kit))}
            command = [program, "build", "-q", "--network", "none", *(("-t", tag) if tag else ()), place]
            done = subprocess.run(command, capture_output=True, text=True, check=True, env=env)
        return done.stdout.strip().splitlines()[-1]

    def import_image(self, tag: str, *changes: str, megabytes: int = 0, every_tool: bool = False) -> str:
        """An image of one layer, and its id; with *every_tool* of busybox it is like a small machine."""
        with tempfile.TemporaryDirectory() as place:
            busybox = Path(shutil.which("busybox") or "/bin/busybox")
            (Path(place) / "bin").mkdir()
            shutil.copy(busybox, Path(place) / "bin/busybox")
            tools = TOOLS
            if every_tool:
                tools = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True).stdout.split()
                for folder in ("etc", "root", "tmp", "usr", "var"):
                    (Path(place) / folder).mkdir()
                (Path(place) / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
            for it in tools:
                if it == "busybox":
                    continue
                (Path(place) / "bin" / it).symlink_to("busybox")
            if megabytes:
                (Path(place) / "blob").write_bytes(os.urandom(megabytes * 1_000_000))
            words = [it for change in changes for it in ("--change", change)]
            with subprocess.Popen(["tar", "-C", place, "-c", "."], stdout=subprocess.PIPE) as tar:
                return self("import", *words, "-", tag, stdin=tar.stdout)

    def names(self) -> set[str]:
        """The containers that are there."""
        return {*self("ps", "-a", "--format", "{{.Names}}").split()}

    def images(self) -> set[str]:
        """The ids of the images that are there, nameless ones too."""
        return {*self("images", "-aq", "--no-trunc").split()}

    def inspect(self, name: str, form: str) -> str:
        """Of a container."""
        return self("container", "inspect", "--format", form, name)

    def machine(self, *shell: str, path: str = "") -> Machine:
        """This machine, with this engine."""
        before = ("env", f"DOCKER_HOST={self.host}", *((f"PATH={path}:{os.environ['PATH']}",) if path else ()))
        return Machine(shell=shell or ("dash",), before=before)

    def clean(self) -> None:
        """Remove everything but the image that every test starts with."""
        if found := self("ps", "-aq").split():
            self("rm", "-f", "-v", *found)
        for _ in range(9):  # parents go only after their children
            if found := self.images() - {self.base}:
                self.run("rmi", "-f", *found, check=False)
        assert self.images() <= {self.base}, self("images", "-a")
        if self.base not in self.images():
            self.base = self.import_image("base:1")
        self("tag", self.base, "base:1")
        if found := self("volume", "ls", "-q").split():
            self("volume", "rm", *found)
        self("builder", "prune", "-af")


@contextmanager
def engine_of_its_own(megabytes: int = 400) -> Iterator[Engine]:
    """Start one, and end it; its disk is *megabytes* large."""
    folder = Path(tempfile.mkdtemp(prefix="runbook-docker-"))  # a short path: a socket's may have 107 characters
    for it in ("data", "exec"):
        (folder / it).mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "none", str(folder / "data")], check=True)
    engine = Engine(folder=folder, name=f"runbook-{secrets.token_hex(4)}")
    try:
        engine.start()
        engine.base = engine.import_image("base:1")
        yield engine
        engine.clean()
    finally:
        engine.stop()
        for mount in reversed(Path("/proc/mounts").read_text().splitlines()):
            place = mount.split()[1]
            if place.startswith(f"{folder}/"):
                subprocess.run(["umount", "-l", place], check=False)
        shutil.rmtree(folder, ignore_errors=True)
