"""Packages that are installed beside runbook add actions and playbooks; the one of the docs is built, installed and run."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import runbook as package

PAGE = Path(__file__).parents[2] / "docs" / "writing-an-action.md"
MAIN_SITE = sysconfig.get_path("purelib")
BLOCK = re.compile(r'^```\w+ title="(runbook-racks/[^"]*)"\n(.*?)^```', flags=re.DOTALL | re.MULTILINE)


class Installation:
    """A virtual environment with runbook and its libraries, and whatever else is installed into it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")], check=True, timeout=120)
        self.python = folder / "venv/bin/python"
        (self.site,) = (folder / "venv").glob("lib/python*/site-packages")
        (self.site / "base.pth").write_text(f"{Path(package.__file__).parents[1]}\n{MAIN_SITE}\n")
        (folder / "work").mkdir()
        (folder / "work" / "hosts.yaml").write_text("hosts: {a: {transport: local}}\n")

    def says(self, *words: str, code: int = 0, cwd: Path | None = None, **more: str) -> str:
        """What the program prints."""
        env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        done = subprocess.run(
            [str(self.python), "-m", "runbook", *words], cwd=cwd or self.folder / "work", capture_output=True, text=True,
            env={**env, "XDG_STATE_HOME": str(self.folder / "state"), "COLUMNS": "200", **more}, timeout=120,
        )  # fmt: skip
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr


def dist_info(folder: Path, name: str, entries: str) -> None:
    """What an installed distribution leaves in *folder*, with entry points."""
    place = folder / f"{name.replace('-', '_')}-2.0.dist-info"
    place.mkdir(parents=True)
    (place / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 2.0\n")
    (place / "entry_points.txt").write_text(entries)


@pytest.fixture(scope="module")
def installation(tmp_path_factory) -> Installation:
    return Installation(tmp_path_factory.mktemp("installation"))


@pytest.mark.slow
def test_the_package_of_the_docs_is_built_installed_and_run(installation, tmp_path):
    """Mutants: extensions.py that looks at no group; with ``sys.path``; ``find_playbook`` without collections."""
    assert "no action 'rack_power'" in installation.says("actions", "rack_power", code=2)
    blocks = BLOCK.findall(PAGE.read_text())
    assert sum(len(text.splitlines()) for name, text in blocks if not name.endswith((".yaml", ".toml"))) <= 40
    for name, text in blocks:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "runbook-racks/runbook_racks/__init__.py").touch()
    book = tmp_path / "runbook-racks/runbook_racks/playbooks/rack-power.yaml"
    said = installation.says("check", str(book), code=2)
    assert "rack-power.yaml:4:12: the package runbook-racks is not installed: `pip install runbook-racks`" in said
    assert "unknown key 'rack_power'" in said
    built = tmp_path / "built"
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    wheel = (
        "wheel",
        "--no-index",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        str(built),
        str(tmp_path / "runbook-racks"),
    )
    subprocess.run([*pip, *wheel], check=True, timeout=120)
    (made,) = built.glob("*.whl")
    subprocess.run(
        [*pip, "install", "--no-index", "--no-deps", "--target", str(installation.site), str(made)],
        check=True,
        timeout=120,
    )

    listed = installation.says("actions").splitlines()
    (line,) = [it for it in listed if it.startswith("rack_power")]
    assert line.endswith("Read whether the power feed of a host's rack is on. (from runbook-racks 1.2)")
    assert len([it for it in listed if "(from " in it]) == 1
    assert "good" in installation.says("check", str(book))
    shown = installation.says("actions", "rack_power")
    assert "It comes from runbook-racks 1.2." in shown
    assert "The file that the rack's controller writes: on or off." in shown
    assert "Tell hosts whose rack has no power. (from runbook-racks 1.2)" in installation.says("list")
    (tmp_path / "power").write_text("off\n")
    words = (
        "run",
        "rack-power",
        "--hosts",
        "a",
        "-i",
        "hosts.yaml",
        "-e",
        f"file={tmp_path / 'power'}",
        "--output",
        "json",
    )
    ran = json.loads(installation.says(*words, code=1))
    assert [(it["id"], it["status"]) for it in ran["hosts"][0]["findings"]] == [("dark", "present")]
    (tmp_path / "power").write_text("on\n")
    assert json.loads(installation.says(*words))["hosts"][0]["verdict"] == "healthy"

    dist_info(installation.site, "runbook-doubles", "[runbook.actions]\nrack_power = doubles.x\n")
    said = installation.says("actions", code=2)
    assert "the action rack_power is in runbook-doubles 2.0 and in runbook-racks 1.2 (uninstall one of them)" in said


@pytest.mark.slow
def test_what_lies_in_the_working_directory_is_no_extension(tmp_path):
    """Law 9. Mutants: extensions.py with ``entry_points()`` of all of ``sys.path``; __main__.py that leaves the directory."""
    installation, place = Installation(tmp_path), tmp_path / "theirs"
    dist_info(place, "runbook-evil", "[runbook.actions]\nevil = evil\n[runbook.playbooks]\nbooks = evil\n")
    for name in ("evil", "yaml", "runbook_racks"):
        (place / f"{name}.py").write_text(f"raise SystemExit('{name} was imported')\n")
    assert "evil" not in installation.says("list", cwd=place)
    named = tmp_path / "named"
    dist_info(named, "runbook-evil", "[runbook.playbooks]\nbooks = evil\n")
    (named / "evil").mkdir()
    (named / "evil" / "evil-book.yaml").write_text("name: evil-book\nabout: Evil.\n")
    assert "evil" not in installation.says("list", PYTHONPATH=str(named))


@pytest.mark.slow
def test_a_name_of_the_library_is_taken_by_nobody(tmp_path):
    """Mutant: ``with_extensions`` that lets one hide the other."""
    mine = Installation(tmp_path)
    dist_info(
        mine.site, "runbook-other", "[runbook.actions]\npkill = other.pkill\n[runbook.transports]\nssh = other.ssh\n"
    )
    assert "the action pkill is in runbook itself and in runbook-other 2.0" in mine.says("actions", code=2)
    said = mine.says("exec", "a", "-i", "hosts.yaml", "--read", "--", "true", code=2)
    assert "the transport ssh is in runbook itself and in runbook-other 2.0" in said


MODULES = {
    "racks.py": '''"""An inventory with racks."""
from runbook.inventory import host_list
from runbook.inventory.text_formats import TextDocument


def recognises(document):
    return isinstance(document, dict) and "racks" in document


def parse_text(text, file):
    lines = text.splitlines()
    if lines[:1] != ["rack,host"]:
        return None
    racks = {}
    for rack, host in (line.split(",") for line in lines[1:]):
        racks.setdefault(rack, {})[host] = {}
    return TextDocument(file=file, value={"racks": racks}, places={})


def load(document, source, where):
    hosts = [{"name": host, "transport": "echoed"} for rack in document["racks"].values() for host in rack]
    return host_list.load({"hosts": hosts}, source, lambda path: where(()))
''',
    "echoed.py": '''"""This machine."""
from runbook.connections.transports import local


def connect(host, options, interrupt):
    print("echoed to", host.name)
    return local.connect(host, options, interrupt)
''',
    "short.py": '''"""One line a host."""
ENDINGS = ("short",)


class Reporter:
    def __init__(self, stream):
        self.stream = stream

    def on(self, event):
        if event.kind == "host_finished":
            self.stream.write(f"{event.result.host} is {event.result.verdict}\\n")
''',
    "broken.py": '"""An action."""\nimport missing_library\n',
}
GROUPS = {
    "inventories": {"racks": "mine.racks"},
    "transports": {"echoed": "mine.echoed"},
    "reporters": {"short": "mine.short"},
    "actions": {"broken": "mine.broken"},
}


@pytest.mark.slow
def test_inventory_formats_transports_and_reporters_come_from_packages_too(tmp_path):
    """Mutants: each of the four `with_extensions` without its group; ``load`` that lets what is raised pass."""
    mine = Installation(tmp_path)
    (mine.site / "mine").mkdir()
    for name, text in MODULES.items():
        (mine.site / "mine" / name).write_text(text)
    entries = [
        f"[runbook.{group}]\n" + "".join(f"{name} = {module}\n" for name, module in modules.items())
        for group, modules in GROUPS.items()
    ]
    dist_info(mine.site, "runbook-mine", "".join(entries))
    (tmp_path / "work" / "racks.yaml").write_text("racks: {r1: [a, b]}\n")
    words = ("exec", "all", "-i", "racks.yaml", "--read", "--output", "short", "--report", "all.short", "--", "true")
    said = mine.says(*words).splitlines()
    assert sorted(said) == ["a is healthy", "b is healthy", "echoed to a", "echoed to b"]
    assert sorted((tmp_path / "work" / "all.short").read_text().split("\n"))[1:] == ["a is healthy", "b is healthy"]

    # a file that is no YAML; a rack whose name Ansible gives to the members of a group
    (tmp_path / "work" / "racks.csv").write_text("rack,host\nhosts,a\nchildren,c\n")
    assert "a" in mine.says("hosts", "-i", "racks.csv")

    assert "pkill" in mine.says("actions", "pkill"), "what is broken is in nobody's way"
    said = mine.says("actions", "broken", code=2)
    assert "the action broken of runbook-mine 2.0 cannot be loaded: ModuleNotFoundError: No module named" in said
