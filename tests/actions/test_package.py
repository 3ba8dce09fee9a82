"""Packages: apt for real in a root of its own, rpm and apk by programs that keep to the real ones' rules."""

from __future__ import annotations

import gzip
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from runbook.errors import ConfigError, ProbeError
from runbook.language.arguments import build
from runbook.library.system import package
from runbook.library.system.facts import packages
from runbook.library.system.facts.packages import install, shortened
from runbook.protocols import Fails, Holds
from runbook.values.command import Completed
from runbook.values.plan import Blocked, Change, NoChange
from tests.support.probe_driver import drive
from tests.support.real_processes import NOBODY, Machine, shell
from tests.support.run_step import take, way_to
from tests.support.tables import every_row

apt = pytest.mark.real("root", "apt")


def made(**values) -> package.Args:
    return build(package.Args, values)


@every_row(
    ("values", "words"),
    [
        ({}, "give `names`"),
        ({"names": ["--reinstall"]}, "not a valid name of a package"),
        ({"names": ["hello-"]}, "must not end in -"),
        ({"names": ["hello=2.10"]}, "without a version"),
        ({"names": ["hel*"]}, "not a valid name of a package"),
        ({"names": ["a b"]}, "not a valid name of a package"),
        ({"names": ["@group"]}, "not a valid name of a package"),
        ({"names": [""]}, "not a valid name of a package"),
        ({"programs": {"fuser": "psmisc;id"}}, "not a valid name of a package"),
        ({"programs": {"-v": "psmisc"}}, "not a valid name of a program"),
        ({"names": ["a"], "called": {"pacman": {"a": "b"}}}, "pacman"),
        ({"names": ["a"], "called": {"dnf": {"a": "-b"}}}, "not a valid name of a package"),
        ({"names": ["a"], "state": "absent"}, "absent"),
    ],
)
def test_a_name_that_is_more_than_a_name_is_refused(values, words):
    with pytest.raises(ConfigError, match=words):
        made(**values)


@every_row("name", ["g++", "libstdc++6", "python3.11", "libc6:i386", "NetworkManager", "p7zip_full"])
def test_names_that_distributions_use_are_taken(name):
    assert made(names=[name]).names == (name,)


class Apt:
    """A real apt and a real dpkg with a root, lists and a repository of their own."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root, self.lists, self.repository = folder / "root", folder / "lists", folder / "repository"
        self.admin = self.root / "var/lib/dpkg"
        for it in ("info", "updates", "triggers"):
            (self.admin / it).mkdir(parents=True)
        for it in ("apt.conf.d", "preferences.d", "sources.list.d", "trusted.gpg.d"):
            (folder / "etc" / it).mkdir(parents=True)
        for it in (self.lists / "partial", folder / "cache/archives/partial", folder / "log"):
            it.mkdir(parents=True)
        self.repository.mkdir()
        (self.admin / "status").touch()
        settings = {
            "Dir::State": str(folder),
            "Dir::State::lists": str(self.lists),
            "Dir::State::status": str(self.admin / "status"),
            "Dir::Cache": str(folder / "cache"),
            "Dir::Etc": str(folder / "etc"),
            "Dir::Etc::sourcelist": str(folder / "sources.list"),
            "Dir::Log": str(folder / "log"),
            "APT::Sandbox::User": "root",
            "APT::Architecture": "amd64",
            "Acquire::Languages": "none",
            "Acquire::Retries": "0",
        }
        lines = [f'{key} "{value}";' for key, value in settings.items()]
        lines += [f'Dpkg::Options {{ "--root={self.root}"; "--log={folder}/dpkg.log"; }};']
        (folder / "apt.conf").write_text("\n".join(lines))
        (folder / "sources.list").write_text(f"deb [trusted=yes] file:{self.repository} ./\n")
        monkeypatch.setenv("APT_CONFIG", str(folder / "apt.conf"))
        monkeypatch.setenv("DPKG_ADMINDIR", str(self.admin))
        self.index = ""

    def offer(self, name: str, version: str = "1.0", **fields: str) -> None:
        """Put a package into the repository; the lists do not know of it before they are fetched."""
        tree = self.repository / name
        (tree / "DEBIAN").mkdir(parents=True)
        (tree / "opt").mkdir()
        (tree / f"opt/{name}").write_text("hello\n")
        control = f"Package: {name}\nVersion: {version}\nArchitecture: all\nMaintainer: nobody <n@example.org>\n"
        control += "".join(f"{key.replace('_', '-')}: {value}\n" for key, value in fields.items())
        control += "Description: a package of a test\n"
        (tree / "DEBIAN/control").write_text(control)
        file = self.repository / f"{name}.deb"
        subprocess.run(["dpkg-deb", "--build", "-Zgzip", tree, file], check=True, stdout=subprocess.DEVNULL)
        shutil.rmtree(tree)
        raw = file.read_bytes()
        self.index += (
            f"{control}Filename: ./{file.name}\nSize: {len(raw)}\nSHA256: {hashlib.sha256(raw).hexdigest()}\n\n"
        )
        (self.repository / "Packages.gz").write_bytes(gzip.compress(self.index.encode()))

    def fetch(self) -> None:
        subprocess.run(["apt-get", "-qq", "update"], check=True)

    def has(self, name: str) -> bool:
        return (self.root / f"opt/{name}").exists()


@pytest.fixture
def own(tmp_path, monkeypatch):
    return Apt(tmp_path, monkeypatch)


@apt
def test_a_missing_package_is_installed_and_seen_to_be_there(own):
    own.offer("tiny")
    own.offer("other")
    own.fetch()
    taken = take("package", {"names": ["tiny", "other"]})
    assert (taken.status, taken.result.verified) == ("changed", True), taken.why
    assert own.has("tiny")
    assert own.has("other")
    assert taken.planned.planned == "install tiny, other with apt-get"
    (line,) = taken.writes
    assert line.endswith(" install -- tiny other")
    assert all(
        it in line for it in ("DEBIAN_FRONTEND=noninteractive", "DPkg::Lock::Timeout=60", "--no-install-recommends")
    )
    again = take("package", {"names": ["tiny", "other"]})
    assert (again.status, again.why, again.writes) == ("ok", "installed: tiny 1.0, other 1.0", [])


@apt
def test_only_what_is_missing_is_installed_and_nothing_that_is_only_recommended(own):
    own.offer("there")
    own.offer("nice")
    own.offer("tiny", Recommends="nice")
    own.fetch()
    take("package", {"names": ["there"]})
    taken = take("package", {"names": ["there", "tiny"]})
    assert taken.planned.planned == "install tiny with apt-get"
    assert taken.writes[0].endswith(" -- tiny")
    assert own.has("tiny")
    assert not own.has("nice")


@apt
def test_lists_are_fetched_first_where_they_do_not_offer_the_package(own):
    own.offer("tiny")
    taken = take("package", {"names": ["tiny"]})
    assert taken.planned.planned == "install tiny with apt-get, after fetching its package lists"
    assert (taken.status, own.has("tiny")) == ("changed", True), taken.why
    assert not any("refreshed" in it.stderr for it in taken.result.commands)


@apt
def test_lists_that_cannot_be_fetched_do_not_matter_when_the_installation_works(own):
    own.offer("tiny")
    own.fetch()
    with (own.root.parent / "sources.list").open("a") as file:
        file.write("deb [trusted=yes] http://127.0.0.1:9 ./\n")
    taken = take("package", {"names": ["tiny"], "refresh": "always"})
    assert taken.status == "changed", taken.why
    assert any("the package lists were not all refreshed" in it.stderr for it in taken.result.commands)


@apt
def test_without_a_network_the_step_fails_in_the_tools_words_and_may_be_ignored(own):
    (own.root.parent / "sources.list").write_text("deb [trusted=yes] http://127.0.0.1:9 ./\n")
    taken = take("package", {"names": ["tiny"]}, ignore_failure=True)
    assert (taken.status, taken.result.ignored) == ("failed", True)
    assert "127.0.0.1:9" in taken.why
    assert "Unable to locate package tiny" in taken.why
    assert "exit code 100" in taken.why


@apt
def test_a_lock_that_another_one_holds_is_told_in_the_tools_words(own, monkeypatch):
    own.offer("tiny")
    own.fetch()
    quick = [it.replace("Timeout=60", "Timeout=1") for it in packages._INSTALL["apt"]]
    monkeypatch.setitem(packages._INSTALL, "apt", tuple(quick))
    hold = (
        "import fcntl,sys;f=open(sys.argv[1],'w');fcntl.lockf(f,fcntl.LOCK_EX);print('up',flush=True);sys.stdin.read()"
    )
    lock = str(own.admin / "lock-frontend")
    with subprocess.Popen([sys.executable, "-c", hold, lock], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        taken = take("package", {"names": ["tiny"]})
        holder.stdin.close()
    assert taken.status == "failed"
    assert "Could not get lock" in taken.why
    assert str(holder.pid) in taken.why
    assert len(taken.why) < 600


@apt
def test_a_package_that_would_push_another_out_is_not_installed(own):
    own.offer("there")
    own.offer("tiny", Conflicts="there")
    own.fetch()
    take("package", {"names": ["there"]})
    taken = take("package", {"names": ["tiny"]})
    assert taken.status == "failed"
    assert "remove" in taken.why
    assert own.has("there")
    assert not own.has("tiny")


@apt
def test_a_package_that_was_removed_with_its_settings_kept_is_missing(own):
    (own.admin / "status").write_text(
        "Package: tiny\nStatus: deinstall ok config-files\nArchitecture: all\nVersion: 1.0\nMaintainer: n <n@example.org>\n"
        "Description: x\nConffiles:\n /etc/tiny 00000000000000000000000000000000\n"
    )
    state = drive(package.probe(made(names=["tiny"])), Machine())
    assert (state.missing, state.installed) == (("tiny",), {})


@apt
def test_a_database_that_cannot_be_read_is_unknown_and_not_missing(own):
    (own.admin / "status").write_text("Package\n\n:\n")
    with pytest.raises(
        ProbeError, match=r"which packages are installed could not be determined: dpkg-query: error: .*status"
    ):
        drive(package.probe(made(names=["tiny"])), Machine())


@apt
def test_a_package_is_not_wanted_where_its_program_is_on_path(own):
    own.offer("tiny")
    own.fetch()
    taken = take("package", {"programs": {"sh": "tiny"}})
    assert (taken.status, taken.why, taken.writes) == ("ok", "on PATH: sh", [])
    taken = take("package", {"programs": {"surely-no-such-program": "tiny"}})
    assert (taken.status, own.has("tiny")) == ("failed", True)
    assert taken.why == "done, but the package is installed, but there is no program surely-no-such-program on PATH"
    assert take("package", {"programs": {"surely-no-such-program": "tiny"}}).status == "blocked"


@apt
def test_a_package_that_came_after_the_plan_is_not_installed_again_and_no_other_is(own):
    own.offer("tiny")
    own.offer("other")
    own.fetch()
    args = {"names": ["tiny", "other"]}
    taken = take("package", args, between=lambda: take("package", {"names": ["tiny"]}))
    assert (taken.status, taken.why) == ("changed", "install other with apt-get")


@pytest.mark.real("root", "apt", "setpriv")
def test_who_is_not_root_is_told_to_become_it(own, tmp_path):
    own.offer("tiny")
    for it in (*way_to(tmp_path), *tmp_path.rglob("*")):
        it.chmod(0o755) if it.is_dir() else it.chmod(0o644)
    state = drive(package.probe(made(names=["tiny"])), Machine(before=NOBODY))
    decision = package.decide(made(names=["tiny"]), state)
    assert isinstance(decision, Blocked)
    assert decision.why == "tiny: installing needs root: give the step `become: true`"


RPM = r"""#!/bin/sh
# rpm -q --qf FORMAT -- NAME: the exit code is the number of names that are not there
[ "$1 $2 $3 $4" = '-q --qf %{VERSION}-%{RELEASE}\n --' ] || { echo "rpm: $*: unknown option" >&2; exit 1; }
[ ! -e BROKEN ] || { echo 'error: cannot open Packages database in /var/lib/rpm' >&2; exit 1; }
if [ -e "DB/$5" ]; then echo '23.4-7.el9'; else echo "package $5 is not installed"; exit 1; fi
"""
DNF = r"""#!/bin/sh
# dnf -q -y --setopt=... install -- NAME...
echo "$0 $*" >>LOG
while [ $# -gt 0 ]; do case $1 in install|-*) shift ;; *) break ;; esac; done
for one; do
    [ "$one" != nowhere ] || { echo "Error: Unable to find a match: $one" >&2; exit 1; }
    : >"DB/$one"
done
"""
APK = r"""#!/bin/sh
# apk info -e -- NAME prints what is there; apk add -q --no-cache -- NAME...
if [ "$1 $2 $3" = 'info -e --' ]; then
    [ ! -e BROKEN ] || { echo 'ERROR: Unable to read database: I/O error' >&2; exit 99; }
    [ -e "DB/$4" ] && echo "$4"
    exit
fi
[ "$1 $2 $3 $4" = 'add -q --no-cache --' ] || exit 1
echo "$0 $*" >>LOG
shift 4
for one; do
    [ "$one" != nowhere ] || { printf 'ERROR: unable to select packages:\n  nowhere (no such package)\n' >&2; exit 1; }
    : >"DB/$one"
done
"""
KINDS = {"dnf": {"rpm": RPM, "dnf": DNF}, "yum": {"rpm": RPM, "yum": DNF}, "apk": {"apk": APK}}


@pytest.fixture(params=KINDS)
def elsewhere(request, tmp_path):
    """A host of another distribution: busybox and its own package manager, nothing else on PATH."""
    path = Path(shell("only busybox", tmp_path)[2].removeprefix("PATH="))
    for name in ("rpm", "sh"):  # busybox's own sh takes its own rpm, whatever is on PATH
        (path / name).unlink()
    (path / "sh").symlink_to("/bin/dash")
    (tmp_path / "db").mkdir()
    for name, text in KINDS[request.param].items():
        for word in ("DB", "LOG", "BROKEN"):
            text = text.replace(word, str(tmp_path / word.lower()))
        (path / name).write_text(text)
        (path / name).chmod(0o755)
    return request.param, Machine(shell=shell("only busybox", tmp_path)), tmp_path


def sent(tmp_path: Path) -> str:
    return (tmp_path / "log").read_text().strip().rpartition("/")[2]


@pytest.mark.real("root", "busybox")
def test_other_managers_install_what_is_missing_and_say_so_afterwards(elsewhere):
    manager, host, folder = elsewhere
    (folder / "db/lsof").touch()
    args = made(names=["lsof", "procps"], programs={"sh": "bash"}, called={"dnf": {"procps": "procps-ng"}})
    name = "procps-ng" if manager == "dnf" else "procps"
    before = drive(package.probe(args), host)
    decision = package.decide(args, before)
    assert isinstance(decision, Change)
    assert (before.manager, before.missing, [*before.installed]) == (manager, (name,), ["lsof"])
    assert isinstance(package.holds(args, before), Fails)
    (command,) = decision.commands
    argv = ("env", "-i", f"PATH={host.shell[2].removeprefix('PATH=')}", *command.argv)
    assert subprocess.run(argv, check=False).returncode == 0
    assert sent(folder).endswith(f" -- {name}")
    after = drive(package.probe(args), host)
    assert isinstance(package.decide(args, after), NoChange)
    assert isinstance(package.holds(args, after), Holds)


@pytest.mark.real("root", "busybox")
def test_a_database_of_another_manager_that_cannot_be_read_is_unknown(elsewhere):
    _, host, folder = elsewhere
    (folder / "broken").touch()
    with pytest.raises(
        ProbeError, match=r"(?i)which packages are installed could not be determined: error: .*(open|read)"
    ):
        drive(package.probe(made(names=["lsof"])), host)


@pytest.mark.real("root", "busybox")
def test_a_host_without_a_known_manager_is_blocked_only_if_something_is_missing(tmp_path):
    host = Machine(shell=shell("only busybox", tmp_path))
    args = made(names=["lsof"], programs={"sh": "bash"})
    decision = package.decide(args, drive(package.probe(args), host))
    assert isinstance(decision, Blocked)
    assert decision.why == "lsof: cannot be installed, because this host has none of apt-get, dnf, yum, apk"
    args = made(programs={"sh": "bash"})
    assert isinstance(package.decide(args, drive(package.probe(args), host)), NoChange)


def test_lists_are_not_fetched_where_that_is_forbidden():
    state = package.State(manager="apt", missing=("tiny",), unlisted=("tiny",), root=True)
    decision = package.decide(made(names=["tiny"], refresh="never"), state)
    assert isinstance(decision, Blocked)
    assert "do not offer tiny" in decision.why


@every_row(
    ("manager", "text", "words"),
    [
        ("apt", "Reading package lists...\nE: Failed to fetch http://x/y.deb  404  Not Found [IP: 1.2.3.4 80]\nE: Unable to fetch some archives, maybe run apt-get update or try with --fix-missing?\n", "refresh: always"),
        ("dnf", "Error: Failed to download metadata for repo 'baseos'\n", "Failed to download metadata"),
        ("apk", "fetch http://x\nERROR: unable to select packages:\n  nowhere (no such package):\n", "unable to select"),
        ("apt", "something odd\nat the end\n", "at the end"),
    ],
)  # fmt: skip
def test_a_refusal_is_the_managers_own_words_without_the_rest(manager, text, words):
    command = install(manager, ("tiny",), refresh=False)
    said = package.refused(command, Completed(exit_code=100, stderr=text))
    assert words in said
    assert "Reading package lists" not in said
    assert "fetch http://x\n" not in said


def test_words_without_end_are_cut():
    assert len(shortened(Completed(exit_code=1, stderr="E: " + "x" * 5000))) == 500


@apt
def test_a_dot_in_a_name_is_no_wildcard(own):
    own.offer("tiny1.0")
    own.offer("tiny1x0")
    own.fetch()
    assert take("package", {"names": ["tiny1.0"]}).status == "changed"
    assert not own.has("tiny1x0")
