"""A run over real SSH is undone from copies that only the user who changed the file can read."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.support.program import runbook

pytestmark = pytest.mark.real("sshd", "root")

PLAYBOOK = """\
name: changes
about: Changes a file.
remediate:
  - id: write
    become: BECOME
    file: {path: PATH, content: "new\\n", mode: "0644"}
"""
OLD = b"\xffold\r\nno newline"


@pytest.mark.parametrize("become", ["false", "true"])
def test_the_file_is_back_and_its_copy_was_where_its_user_alone_can_go(sshd, account, tmp_path, become):
    """Mutants: ``undo_place`` that takes the place of root for everybody; ``keep_copy`` without ``become``."""
    name = account("/bin/bash", sudo="NOPASSWD: ALL")
    home = Path("~" + name).expanduser()
    fields = {"ssh_host": sshd.address, "ssh_port": sshd.port, "ssh_user": name, "ssh_key": str(sshd.key)}
    (tmp_path / "hosts.yaml").write_text(json.dumps({"hosts": {"h": {**fields, "is_container": True}}}))
    folder = home if become == "false" else Path("/etc")
    file = folder / f"runbook-test-{name}.conf"
    (tmp_path / "changes.yaml").write_text(PLAYBOOK.replace("BECOME", become).replace("PATH", str(file)))
    file.write_bytes(OLD)
    file.chmod(0o640)
    os.chown(file, home.stat().st_uid, home.stat().st_gid)
    before = (file.stat().st_mode, file.stat().st_uid, file.stat().st_gid)
    where = ("-i", "hosts.yaml", "--yes", "--output", "json")
    said = runbook("run", "changes.yaml", "--hosts", "h", *where, cwd=tmp_path)
    own = home / ".local/state/runbook/undo" if become == "false" else Path("/var/lib/runbook/undo")
    place = own / said.document["run"]
    try:
        assert said.code == 0, said.out + said.err
        assert file.read_bytes() == b"new\n"
        user = home.stat().st_uid if become == "false" else 0
        assert [(it.read_bytes(), it.stat().st_mode & 0o777, it.stat().st_uid) for it in place.iterdir()] == [
            (OLD, 0o600, user)
        ]
        assert (place.stat().st_mode & 0o777, own.stat().st_mode & 0o777) == (0o700, 0o700)
        undone = runbook("undo", "last", *where, cwd=tmp_path)
        assert undone.code == 0, undone.out + undone.err
        assert (file.read_bytes(), (file.stat().st_mode, file.stat().st_uid, file.stat().st_gid)) == (OLD, before)
    finally:
        file.unlink()
        if become == "true":
            shutil.rmtree(place, ignore_errors=True)
