"""Whatever file is named as a playbook, an inventory or inputs: nothing of one that is none is repeated."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from runbook.commands.input_files import (
    GivenInputs,
    open_included,
    read_beside,
    read_inputs,
    read_inventory,
    read_playbook,
)
from runbook.errors import ConfigError
from runbook.plugins import discover
from tests.support.tables import every_row

SECRET = "hunter2"

FOREIGN = {
    "shadow": f"root:$6${SECRET}:19000:0:99999:7:::\ndaemon:*:19000:0:99999:7:::\n",
    "shadow with spaces": f"root: $6${SECRET}\nroot: ${SECRET}2\n",
    "key": f"-----BEGIN OPENSSH PRIVATE KEY-----\n{SECRET}\n-----END OPENSSH PRIVATE KEY-----\n",
    "settings": f"password: {SECRET}\nuser: db\n",
    "secret keys": f"{SECRET}: 1\n{SECRET}: 2\n",
    "tag": f"x: !{SECRET} 1\n",
    "alias": f"x: *{SECRET}\n",
    "anchor": f"x: &{SECRET} 1\ny: &{SECRET} 2\n",
    "escape": f'x: "\\q {SECRET}"\n',
    "colons": f"a: b: {SECRET}\n",
    "list": f"- {SECRET}\n- password={SECRET}\n",
    "text": f"{SECRET}\n\tx: {SECRET}\n",
    "ini": f"[client]\npassword={SECRET}\n",
    "environment": f"TOKEN={SECRET}\nPASSWORD='{SECRET}'\n",
    "json": f'{{"auths": {{"registry.example": {{"auth": "{SECRET}"}}}}}}\n',
    "directive": f"%{SECRET} x\n---\na: 1\n",
    "bytes": f"{SECRET}\x01: x\n",
}

BOOK = "name: {name}\nabout: A.\nhosts: all\ninputs:\n  word: {{about: W., type: string, default: x}}\ndiagnose:\n"


@pytest.fixture
def book(tmp_path):
    def write(steps: str, name: str = "outer", folder: str = "books") -> Path:
        (tmp_path / folder).mkdir(exist_ok=True)
        path = tmp_path / folder / f"{name}.yaml"
        path.write_text(BOOK.format(name=name) + steps)
        return path

    return write


LOOK = "  - {id: a, command: {argv: [echo, x]}}\n"


@every_row("kind", FOREIGN)
def test_nothing_of_a_foreign_file_is_repeated(kind, book):
    outer = book(LOOK)
    foreign = outer.parent / "foreign.yaml"
    playbook = read_playbook(outer, discover())
    foreign.write_text(FOREIGN[kind])
    including = book("  - {id: a, include: foreign}\n", name="including")
    tries = {
        "playbook": lambda: read_playbook(foreign, discover()),
        "include": lambda: read_playbook(including, discover()),
        "inventory": lambda: read_inventory([foreign]),
        "inputs": lambda: read_inputs(GivenInputs(inputs_file=str(foreign)), playbook),
    }
    for name, attempt in tries.items():
        with pytest.raises(ConfigError) as caught:
            attempt()
        assert SECRET not in str(caught.value), name
        assert "foreign.yaml" in str(caught.value), name


@pytest.mark.parametrize("how", ["absolute", "upwards", "link", "link to a folder", "ending", "nul"])
def test_an_include_reaches_no_file_outside(how, book, tmp_path, monkeypatch):
    """Mutants: files.py without ``is_relative_to``; with the path before it is resolved."""
    monkeypatch.chdir(tmp_path)
    outside = tmp_path / "outside"
    outside.mkdir()
    other = book(LOOK, name="other", folder="outside")
    (outside / "shadow").write_text(FOREIGN["shadow"])
    name = {
        "absolute": str(other), "upwards": "../outside/other", "link": "linked", "link to a folder": "folder/other",
        "ending": "secret", "nul": "a\\0b",
    }[how]  # fmt: skip
    path = book(f'  - {{id: a, include: "{name}"}}\n')
    (path.parent / "linked.yaml").symlink_to(other)
    (path.parent / "folder").symlink_to(outside)
    (path.parent / "secret").write_text(FOREIGN["shadow"])
    with pytest.raises(ConfigError) as caught:
        read_playbook(path, discover())
    text = str(caught.value)
    assert SECRET not in text
    assert "exists in" in text or "no playbook" in text
    missing = text.replace("other", "absent")
    other.unlink()
    if how in ("absolute", "upwards"):
        path.write_text(path.read_text().replace("other", "absent"))
        with pytest.raises(ConfigError) as caught:
            read_playbook(path, discover())
        assert str(caught.value) == missing, "whether there is such a file cannot be told from the words"


def test_an_include_reaches_its_own_folder_and_what_lies_below(book, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = book("  - {id: a, include: inner}\n  - {id: b, include: below/deep}\n")
    book(LOOK, name="inner")
    (path.parent / "below").mkdir()
    book(LOOK, name="deep", folder="books/below")
    assert [it.id for it in read_playbook(path, discover()).diagnose] == ["a_a", "b_a"]
    (path.parent / "alias.yaml").symlink_to("inner.yaml")
    assert open_included("alias", str(path))[0].endswith("alias.yaml")
    linked = tmp_path / "linked"
    linked.symlink_to(path.parent)
    assert open_included("inner", str(linked / "outer.yaml"))[0].endswith("inner.yaml")
    (tmp_path / "playbooks").mkdir()
    book(LOOK, name="shared", folder="playbooks")
    assert open_included("shared", str(path))[0] == "playbooks/shared.yaml"
    assert open_included("zombie-gpu", str(path))[0].endswith("zombie-gpu.yaml")


@pytest.fixture
def everybodys() -> Iterator[Path]:
    """A directory that everybody can enter."""
    with TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def test_a_file_that_is_sent_lies_beside_the_playbook_or_everybody_may_read_it(book, everybodys):
    path = book(LOOK)
    outside = everybodys / "in" / "secret.sh"
    outside.parent.mkdir()
    outside.write_text("echo x\n")
    outside.chmod(0o644)
    assert read_beside(str(outside), str(path)) == "echo x\n"
    outside.parent.chmod(0o700)
    assert read_beside(str(outside), str(path)) == "echo x\n"
    book(f"  - {{id: b, script: {{file: {outside}}}}}\n", name="inner")
    path.write_text(path.read_text() + "  - {id: c, include: inner}\n")
    with pytest.raises(ConfigError, match="not every user can read it: move it there"):
        read_playbook(path, discover())
    outside.parent.chmod(0o755)
    outside.chmod(0o600)
    with pytest.raises(ConfigError, match="not every user can read it: move it there"):
        read_beside(str(outside), str(path))
    (path.parent / "link.sh").symlink_to(outside)
    for name in ("link.sh", "../outer.sh", str(path.parent / "link.sh")):
        with pytest.raises(ConfigError, match="lies outside"):
            read_beside(name, str(path))
    inside = path.parent / "inside.sh"
    inside.write_text("echo in\n")
    inside.chmod(0o600)
    assert read_beside("inside.sh", str(path)) == read_beside(str(inside), str(path)) == "echo in\n"


def test_a_playbook_with_a_mistake_still_hears_what_was_meant(book):
    path = book(LOOK)
    path.write_text(path.read_text().replace("argv", "agrv"))
    with pytest.raises(ConfigError, match="agrv"):
        read_playbook(path, discover())
