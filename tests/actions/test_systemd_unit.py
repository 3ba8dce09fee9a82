"""Units that are written, read, enabled and started on a real systemd in namespaces of its own."""

from __future__ import annotations

import secrets

import pytest

from runbook.commands.input_files import read_playbook
from runbook.errors import ConfigError
from runbook.language.arguments import build
from runbook.library.system import systemd_unit
from runbook.library.system.facts import systemd_units
from tests.support.run_step import ACTIONS, carry_out, take
from tests.support.systemd_host import boot
from tests.support.tables import every_row

pytestmark = pytest.mark.real("systemd")

TEXT = """[Unit]
Description=the monitor
DefaultDependencies=no
[Service]
ExecStart=/bin/sleep 1000
Restart=always
[Install]
WantedBy=tiny.target
"""


@pytest.fixture(scope="module")
def systemd():
    it = boot()
    yield it
    it.stop()


@pytest.fixture
def unit(systemd):
    """Takes a step on a unit of this test."""
    name = f"u{secrets.token_hex(4)}"

    def step(content: str = TEXT, between=None, **values):
        args = {"name": name, "content": content, "steady": "300ms", **values}
        return take("systemd_unit", args, within=systemd.within, between=between)

    step.name = f"{name}.service"
    yield step
    systemd.run("systemctl", "stop", step.name, check=False)


def test_a_unit_is_written_enabled_and_started_and_the_second_run_does_nothing(systemd, unit):
    taken = unit()
    assert (taken.status, taken.result.verified) == ("changed", True), taken.why
    assert taken.planned.planned == f"write, daemon-reload, enable, start: {unit.name}"
    assert "+ExecStart=/bin/sleep 1000" in (taken.planned.diff or "")
    assert systemd.show(unit.name, "ActiveState") == "active"
    assert systemd.show(unit.name, "UnitFileState") == "enabled"
    assert systemd.run("cat", f"/etc/systemd/system/{unit.name}") == TEXT
    again = unit()
    assert (again.status, again.writes) == ("ok", [])


def test_a_changed_text_is_shown_and_the_service_runs_with_it(systemd, unit):
    unit()
    pid = systemd.show(unit.name, "MainPID")
    taken = unit(TEXT.replace("1000", "2000"))
    assert taken.planned.planned == f"write, daemon-reload, restart: {unit.name}"
    assert "-ExecStart=/bin/sleep 1000\n+ExecStart=/bin/sleep 2000\n" in (taken.planned.diff or "")
    assert (taken.status, taken.result.risk.value) == ("changed", "restarts-services")
    assert systemd.show(unit.name, "MainPID") != pid
    assert "2000" in systemd.show(unit.name, "ExecStart")


def test_a_file_that_systemd_has_not_read_is_read_and_the_service_started_anew(systemd, unit):
    unit()
    systemd.write(f"/etc/systemd/system/{unit.name}", TEXT.replace("1000", "3000"))
    taken = unit(TEXT.replace("1000", "3000"))
    assert taken.planned.planned == f"daemon-reload, restart: {unit.name}"
    assert taken.status == "changed"


def test_a_unit_may_be_written_only(systemd, unit):
    taken = unit(started=False, enabled=False)
    assert (taken.status, taken.result.risk.value) == ("changed", "edits-files")
    assert systemd.show(unit.name, "ActiveState") == "inactive"


def test_a_service_that_falls_over_is_no_success(unit):
    taken = unit(TEXT.replace("/bin/sleep 1000", "/bin/sh -c 'sleep 0.1; exit 5'").replace("always", "no"))
    assert taken.status == "failed"
    assert "exit status 5" in taken.why


def test_a_file_that_somebody_wrote_after_the_plan_is_left_alone(systemd, unit):
    path = f"/etc/systemd/system/{unit.name}"
    taken = unit(between=lambda: systemd.write(path, "[Service]\nExecStart=/bin/true\n"))
    assert (taken.status, taken.writes) == ("drifted", [])
    assert "/bin/true" in systemd.run("cat", path)


def test_a_unit_of_the_distribution_is_not_overridden_and_a_masked_one_stays_so(systemd, unit):
    systemd.unit(unit.name, TEXT)
    assert "is not overridden" in unit().why
    other = "masked-unit"
    systemd.run("ln", "-s", "/dev/null", f"/etc/systemd/system/{other}.service")
    systemd.run("systemctl", "daemon-reload")
    assert "is masked" in unit(name=other).why


def test_what_the_host_hangs_on_is_left_alone(unit):
    taken = unit(name="sshd")
    assert (taken.status, taken.writes) == ("blocked", [])
    assert "a remote access service" in taken.why


def test_a_template_beside_the_playbook_is_filled_in(systemd, unit, tmp_path):
    (tmp_path / "unit.j2").write_text(TEXT.replace("the monitor", "watches {{ inputs.what }}"))
    (tmp_path / "it.yaml").write_text(
        "name: it\ninputs: {what: {about: x, default: all of it}}\nremediate:\n"
        f"- systemd_unit: {{name: {unit.name}, template: unit.j2, steady: 0}}\n"
    )
    taken = carry_out(read_playbook(tmp_path / "it.yaml", ACTIONS), within=systemd.within)
    assert taken.status == "changed", taken.why
    assert systemd.show(unit.name, "Description") == "watches all of it"


def test_where_no_systemd_runs_the_step_is_skipped(monkeypatch, tmp_path):
    monkeypatch.setattr(systemd_units, "BOOTED", str(tmp_path / "none"))
    assert take("systemd_unit", {"name": "x", "content": TEXT}).status == "skipped"


@every_row(
    ("values", "words"),
    [
        ({"name": "a"}, "exactly one"),
        ({"name": "a", "content": "x"}, "no section"),
        ({"name": "a", "content": TEXT.partition("[Install]")[0]}, r"\[Install\]"),
        ({"name": "../a", "content": TEXT}, "not a valid unit name"),
        ({"name": "a.mount", "content": TEXT}, "is a mount"),
        ({"name": "a", "content": TEXT, "source": "x"}, "exactly one"),
    ],
)
def test_a_mistake_in_the_arguments_is_refused(values, words):
    with pytest.raises(ConfigError, match=words):
        build(systemd_unit.Args, values)
