"""Services, steered on a real systemd that runs in namespaces of its own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from runbook.errors import ConfigError, ProbeError
from runbook.language.arguments import build
from runbook.library.system import service
from runbook.library.system.facts import systemd_units
from runbook.library.system.facts.systemd_units import Unit, protected
from runbook.protocols import Absent, Fails, Holds
from runbook.values.command import Completed
from runbook.values.plan import Blocked, Change, NoChange
from runbook.values.types import Unknown
from tests.support.probe_driver import drive
from tests.support.real_processes import Machine
from tests.support.run_step import take
from tests.support.systemd_host import boot
from tests.support.tables import every_row

real = pytest.mark.real("systemd")

NAP = """[Unit]
Description=nap
DefaultDependencies=no
[Service]
ExecStart=/bin/sleep 1000
ExecReload=/bin/kill -HUP $MAINPID
{}
[Install]
WantedBy=tiny.target
"""


def made(**values) -> service.Args:
    return build(service.Args, values)


@pytest.fixture(scope="module")
def systemd():
    it = boot()
    yield it
    it.stop()


@pytest.fixture
def nap(systemd, request):
    """A service of this test; ``nap(text)`` writes it."""
    name = f"nap-{abs(hash(request.node.name))}.service"

    def write(more: str = "", text: str = NAP) -> str:
        systemd.unit(name, text.format(more), "/etc/systemd/system")
        return name

    yield write
    systemd.run("systemctl", "stop", name, check=False)


@pytest.fixture
def steered(systemd):
    """A step of the action, taken on that systemd."""

    def on(name: str, state: str = "", **values):
        between = values.pop("between", None)
        values = {"steady": "300ms", **values}
        return take("service", {"name": name, "state": state, **values}, within=systemd.within, between=between)

    return on


@real
def test_a_service_is_started_and_seen_to_run_and_the_second_run_does_nothing(systemd, nap, steered):
    name = nap()
    taken = steered(name, "started")
    assert (taken.status, taken.result.verified, taken.planned.planned) == ("changed", True, f"start {name}"), taken.why
    assert systemd.show(name, "ActiveState") == "active"
    again = steered(name, "started")
    assert (again.status, again.why, again.writes) == ("ok", f"{name} is active (running)", [])
    stopped = steered(name.removesuffix(".service"), "stopped")
    assert (stopped.status, systemd.show(name, "ActiveState")) == ("changed", "inactive")
    assert steered(name, "stopped").status == "ok"


@real
def test_a_restart_is_seen_by_a_new_run_of_the_service_every_time(systemd, nap, steered):
    name = nap()
    steered(name, "started")
    for _ in range(2):
        before = systemd.show(name, "MainPID")
        taken = steered(name, "restarted")
        assert (taken.status, taken.result.risk.value) == ("changed", "restarts-services"), taken.why
        assert systemd.show(name, "MainPID") not in (before, "0")


@real
def test_a_service_that_falls_over_right_after_its_start_is_no_success(nap, steered):
    name = nap("Type=simple\nExecStart=\nExecStart=/bin/sh -c 'sleep 0.1; exit 3'")
    taken = steered(name, "started", steady="3s")
    assert taken.status == "failed"
    assert f"{name} is failed, result: exit-code, exit status 3" in taken.why


@real
def test_a_service_that_systemd_must_start_again_and_again_is_no_success(nap, steered):
    name = nap(
        "Restart=always\nRestartSec=50ms\nExecStart=\nExecStart=/bin/sh -c 'sleep 0.2; exit 3'\nStartLimitBurst=0"
    )
    taken = steered(name, "restarted", steady="3s")
    assert taken.status == "failed"
    assert "restarted by systemd" in taken.why


@real
def test_a_start_that_systemd_refuses_is_told_in_its_words(nap, steered):
    name = nap("ExecStart=\nExecStart=/surely/not/there")
    taken = steered(name, "started")
    assert taken.status == "failed"
    name = nap("Type=oneshot\nExecStart=\nExecStart=/bin/false")
    taken = steered(name, "started")
    assert taken.status == "failed"
    assert f"Job for {name} failed" in taken.why
    assert f"see: journalctl -u {name}" in taken.why


@real
def test_a_oneshot_that_did_its_work_is_done(nap, steered):
    name = nap("Type=oneshot\nExecReload=\nExecStart=\nExecStart=/bin/true")
    assert steered(name, "started").status == "changed"
    name = nap("Type=oneshot\nRemainAfterExit=yes\nExecStart=\nExecStart=/bin/true")
    assert steered(name, "started").status == "changed"
    assert steered(name, "started").status == "ok"


@real
def test_a_reload_keeps_the_process_and_is_seen_all_the_same(systemd, nap, steered):
    name = nap("ExecStart=\nExecStart=/bin/sh -c 'trap : HUP; while :; do sleep 0.1; done'")
    assert "nothing to reload" in steered(name, "reloaded").why
    steered(name, "started")
    pid = systemd.show(name, "MainPID")
    taken = steered(name, "reloaded")
    assert (taken.status, systemd.show(name, "MainPID")) == ("changed", pid), taken.why


@real
def test_a_service_without_a_reload_is_not_reloaded(nap, steered):
    name = nap("ExecReload=")
    steered(name, "started")
    taken = steered(name, "reloaded")
    assert (taken.status, taken.why) == ("blocked", f"{name} cannot reload its settings: use `state: restarted`")


@real
def test_a_service_is_enabled_and_disabled_without_being_started(systemd, nap, steered):
    name = nap()
    taken = steered(name, enabled=True)
    assert (taken.status, taken.result.risk.value) == ("changed", "edits-files")
    assert (systemd.show(name, "UnitFileState"), systemd.show(name, "ActiveState")) == ("enabled", "inactive")
    assert steered(name, enabled=True).status == "ok"
    both = steered(name, "started", enabled=False)
    assert both.planned.planned == f"disable and start {name}"
    assert (systemd.show(name, "UnitFileState"), systemd.show(name, "ActiveState")) == ("disabled", "active")


@real
def test_a_static_or_masked_unit_is_not_forced(systemd, nap, steered):
    name = nap(text="[Service]\nExecStart=/bin/sleep 1000\n")
    assert "is static: it cannot be enabled" in steered(name, enabled=True).why
    name = "masked-one.service"
    systemd.run("ln", "-s", "/dev/null", f"/etc/systemd/system/{name}")
    systemd.run("systemctl", "daemon-reload")
    assert "masked-one.service is masked" in steered(name, "started").why
    assert steered(name, "stopped").status == "ok"


@real
def test_a_unit_that_is_not_there_is_named_with_those_that_are(nap, steered):
    name = nap()
    taken = steered(name.replace("nap", "nab"), "restarted")
    assert taken.status == "blocked"
    assert f"there is no unit {name.replace('nap', 'nab')} on this host (did you mean {name}" in taken.why


@real
def test_a_file_that_systemd_has_not_read_is_told_of_and_read_on_demand(systemd, nap, steered):
    name = nap()
    steered(name, "started")
    systemd.write(f"/etc/systemd/system/{name}", NAP.format("").replace("sleep 1000", "sleep 2000"))
    assert "has changed since systemd read it" in steered(name, "restarted").planned.planned
    assert "2000" not in systemd.show(name, "ExecStart")
    taken = steered(name, "restarted", daemon_reload=True)
    assert any("daemon-reload" in it for it in taken.writes)
    assert "2000" in systemd.show(name, "ExecStart")


@real
def test_what_the_host_hangs_on_is_left_alone_also_under_another_name(systemd, steered):
    systemd.unit(
        "ssh.service", NAP.format("").replace("[Install]", "[Install]\nAlias=sshd.service"), "/etc/systemd/system"
    )
    systemd.run("systemctl", "enable", "ssh")
    systemd.run("systemctl", "start", "ssh")
    for name, state in (("ssh", "stopped"), ("sshd.service", "restarted")):
        taken = steered(name, state)
        assert (taken.status, taken.writes) == ("blocked", [])
        assert "ssh.service is left alone: it is a remote access service" in taken.why
    assert steered("ssh", enabled=False).status == "blocked"
    assert steered("sshd", "restarted", allow=["ssh"]).status == "changed"


@real
def test_a_service_that_was_started_after_the_plan_is_not_started_again(systemd, nap, steered):
    name = nap()
    taken = steered(name, "started", between=lambda: systemd.run("systemctl", "start", name))
    assert (taken.status, taken.writes) == ("ok", [])


@real
def test_what_may_start_a_stopped_service_again_is_named(systemd, nap, steered):
    name = nap()
    systemd.unit(
        name.replace(".service", ".socket"), "[Unit]\nDefaultDependencies=no\n[Socket]\nListenStream=/run/x.sock\n"
    )
    systemd.run("systemctl", "start", name.replace(".service", ".socket"))
    steered(name, "started")
    assert f"{name.replace('.service', '.socket')} may start it again" in steered(name, "stopped").planned.planned


def test_where_no_systemd_runs_the_step_is_skipped(monkeypatch, tmp_path):
    monkeypatch.setattr(systemd_units, "BOOTED", str(tmp_path / "none"))
    taken = take("service", {"name": "docker", "state": "restarted"})
    assert (taken.status, taken.why) == ("skipped", "systemd does not run this host (no /run/systemd/system)")
    assert isinstance(drive(service.probe(made(name="x", state="started")), Machine()), Absent)


@real
def test_a_systemd_that_cannot_be_reached_is_not_known():
    pretend = 'mount --make-rprivate /; mount -t tmpfs none /run; mkdir -p /run/systemd/system; exec "$@"'
    machine = Machine(before=("unshare", "-m", "sh", "-c", pretend, "sh"))
    with pytest.raises(ProbeError, match="Failed to connect to bus"):
        drive(service.probe(made(name="x", state="started")), machine)


UP = Unit(id="a.service", load="loaded", active="active", sub="running", pid=5, enabled="enabled", moved=1)


@every_row(
    "unit", ["ssh", "sshd", "systemd-journald", "dbus", "dbus-broker", "NetworkManager", "user@1000", "tailscaled"]
)
def test_these_are_not_stopped_unless_somebody_names_them(unit):
    there = replace(UP, id=f"{unit}.service")
    assert protected(there, ())
    assert not protected(there, (unit,))
    assert not protected(there, (f"{unit}.service",))
    state = service.State(unit=there, active=True, enabled="enabled", root=True)
    assert isinstance(service.decide(made(name=unit, state="stopped"), state), Blocked)
    assert isinstance(service.decide(made(name=unit, state="started"), state), NoChange)


def test_a_unit_is_protected_by_each_of_its_names():
    assert protected(replace(UP, id="bus.service", names=("bus.service", "dbus.service")), ())


def test_what_only_begins_like_a_protected_one_is_not():
    assert not protected(replace(UP, id="sshguard.service"), ())
    assert not protected(replace(UP, id="docker.service"), ())


def test_a_unit_of_systemd_is_not_even_started_for_it_may_reboot_the_host():
    down = replace(UP, id="systemd-reboot.service", active="inactive", enabled="static")
    state = service.State(unit=down, active=False, enabled="static", root=True)
    assert isinstance(service.decide(made(name="systemd-reboot", state="started"), state), Blocked)


def test_who_is_not_root_is_told_to_become_it_but_only_if_something_is_to_be_done():
    state = service.State(unit=UP, active=True, enabled="enabled", root=False)
    assert isinstance(service.decide(made(name="a", state="started"), state), NoChange)
    decision = service.decide(made(name="a", state="restarted"), state)
    assert isinstance(decision, Blocked)
    assert "become: true" in decision.why


def test_a_restart_after_which_nothing_is_new_is_no_success():
    same = service.State(unit=UP, active=True, enabled="enabled", root=True)
    args = made(name="a", state="restarted")
    assert isinstance(service.decide(args, same), Change)
    assert not service.settled(args, same, same)
    assert "was not restarted: invocation" in service.explain(args, same, same)
    fresh = replace(same, unit=replace(UP, pid=6))
    assert service.settled(args, same, fresh)
    gone = replace(same, unit=replace(UP, pid=0, active="inactive"))
    assert not service.settled(args, same, gone)


def test_a_reload_of_which_there_is_no_record_is_no_success():
    same = service.State(unit=replace(UP, can_reload=True), active=True, enabled="enabled", root=True)
    args = made(name="a", state="reloaded")
    assert not service.settled(args, same, same)
    unknown = replace(same, unit=replace(UP, moved=Unknown(why="old")))
    assert not service.settled(args, same, unknown)


def test_an_assertion_holds_when_it_runs_as_wanted():
    state = service.State(unit=UP, active=True, enabled="enabled", root=False)
    assert isinstance(service.holds(made(name="a", state="restarted", enabled=True), state), Holds)
    assert isinstance(service.holds(made(name="a", state="stopped"), state), Fails)
    assert isinstance(service.holds(made(name="a", enabled=False), state), Fails)
    down = replace(state, unit=replace(UP, active="failed"))
    assert isinstance(service.holds(made(name="a", state="restarted"), down), Fails)


def test_an_old_systemd_that_does_not_say_everything_is_understood():
    said = "user=0\nId=a.service\nLoadState=loaded\nActiveState=active\nMainPID=7\n"
    look = systemd_units.read_unit("a", Completed(exit_code=0, stdout=said))
    assert look.unit is not None
    assert (look.unit.pid, look.unit.invocation) == (7, "")
    assert isinstance(look.unit.restarts, Unknown)


@every_row(
    "done", [Completed(exit_code=0, stdout="user=0\n"), Completed(exit_code=3), Completed(exit_code=None, timed_out=True)]
)  # fmt: skip
def test_an_answer_that_says_nothing_is_not_known(done):
    with pytest.raises(ProbeError):
        systemd_units.read_unit("a", done)


@every_row(
    ("values", "words"),
    [
        ({"name": "a"}, "give `state`"),
        ({"name": "a*", "state": "stopped"}, "without globs"),
        ({"name": "--now", "state": "stopped"}, "not a valid unit name"),
        ({"name": "", "state": "stopped"}, "not a valid unit name"),
        ({"name": "/dev/sda", "state": "stopped"}, "not a valid unit name"),
        ({"name": "reboot.target", "state": "started"}, "is a target"),
        ({"name": "user.slice", "state": "stopped"}, "is a slice"),
        ({"name": "a", "state": "running"}, "use one of"),
        ({"name": "a", "state": "stopped", "steady": "1h"}, "above"),
    ],
)
def test_a_mistake_in_the_arguments_is_refused(values, words):
    with pytest.raises(ConfigError, match=words):
        made(**values)
