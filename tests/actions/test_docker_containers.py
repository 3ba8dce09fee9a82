"""Looking at containers that died for real reasons, reading their logs, and stopping and restarting them."""

from __future__ import annotations

import pytest

from runbook.codec import to_json
from runbook.errors import ProbeError
from runbook.library.docker import container, container_logs, containers
from runbook.library.docker.facts.events import Events
from runbook.library.processes.facts.exit_codes import TABLE, explained, sentence
from runbook.protocols import Action
from runbook.values.command import Effect
from runbook.values.plan import Blocked, Change, NoChange, Risk
from runbook.values.types import Duration, Size, Unknown
from tests.support.probe_driver import drive
from tests.support.tables import every_row
from tests.support.waiting import until

pytestmark = [pytest.mark.real("docker")]
DIES = ("tail", "/dev/zero")


def look(engine, *shell, **args):
    machine = engine.machine(*shell)
    state = drive(containers.probe(containers.Args(**args)), machine)
    assert {it.effect for it in machine.sent} == {Effect.READ}
    assert to_json(state)
    return state


def logs(engine, name, *shell, **args):
    return drive(container_logs.probe(container_logs.Args(container=name, **args)), engine.machine(*shell))


def decided(engine, **args):
    made = container.Args(**args)
    state = drive(container.probe(made), engine.machine())
    return made, state, container.decide(made, state)


def done(engine, **args):
    """Send the change; whether it is settled, and what docker answered."""
    made, state, change = decided(engine, **args)
    assert isinstance(change, Change), change
    (answer,) = engine.machine().run(*change.commands)
    after = drive(container.probe(made), engine.machine())
    return container.settled(made, state, after), answer


@pytest.mark.parametrize(
    "shell",
    [
        ("dash",),
        pytest.param(("bash",), marks=pytest.mark.soak),
        pytest.param(("busybox", "sh"), marks=pytest.mark.real("busybox")),
    ],
)
def test_a_container_that_ran_out_of_memory_is_called_that_with_the_evidence(engine, shell):
    name = engine.dies(*DIES, options=("--memory", "20m"))
    seen = look(engine, *shell, name=name).chosen
    assert (seen.exit_code, seen.oom_killed, seen.out_of_memory) == (137, True, True)
    assert "lack of memory (Docker says OOMKilled; an oom event)" in seen.meaning
    assert seen.memory == 20 << 20
    assert seen.cpus == 0


def test_a_container_that_was_killed_by_hand_is_not_called_out_of_memory(engine):
    name = engine.lives()
    engine("kill", name)
    seen = look(engine, name=name).chosen
    assert (seen.exit_code, seen.oom_killed, seen.out_of_memory) == (137, False, False)
    assert "Docker reports no lack of memory" in seen.meaning
    assert "for lack of memory" not in seen.meaning
    assert seen.signals == ("9",)


def test_a_stop_that_needs_its_grace_shows_both_signals(engine):
    name = engine.lives()
    engine("stop", "-t", "1", name)
    assert look(engine, name=name).chosen.signals == ("15", "9"), "sleep as PID 1 does not hear TERM"


@pytest.mark.parametrize(
    ("words", "code", "meaning"),
    [
        (("true",), 0, "ended normally"),
        (("sh", "-c", "exit 3"), 3, "error code of the program"),
        (("sh", "-c", "kill -s SEGV $$"), 139, "SIGSEGV"),
        (("sh", "-c", "kill -s ABRT $$"), 134, "SIGABRT"),
        (("no-such-program",), 127, "the program was not found"),
    ],
)
def test_every_end_has_its_code_and_its_meaning(engine, words, code, meaning):
    line = ("sh", "-c", f"sh -c '{words[2]}'; exit $?") if "kill" in words[-1] else words
    name = engine.dies(*line)
    seen = look(engine, name=name).chosen
    assert seen.exit_code == code
    assert meaning in seen.meaning
    assert bool(seen.error) is (code == 127)


@pytest.mark.soak
def test_the_last_that_died_is_chosen_not_the_last_that_was_made(engine):
    engine("create", "--name", "first-made", "--network", "none", "base:1", "false")
    engine.dies(name="early")
    engine("start", "-a", "first-made", check=False)
    engine("create", "--name", "never-ran", "base:1", "true")
    engine.lives(name="alive")
    state = look(engine, choose="last_died")
    assert (state.chosen.name, state.count) == ("first-made", 1)
    everything = look(engine)
    assert everything.count == 4
    assert everything.running == ("alive",)
    assert everything.failed == ("first-made",)
    never = next(it for it in everything.containers if it.name == "never-ran")
    assert (never.started_at, never.finished_at) == ("never", "never")
    assert isinstance(never.exit_code, Unknown)
    assert isinstance(never.ran, Unknown)
    for line, name in (("exit 1", "badly"), ("tail /dev/zero; true", "short")):  # both before one that ended well
        engine.dies("sh", "-c", line, name=name, options=("--memory", "20m"))
        engine.dies("true")
        assert look(engine, choose="last_died").chosen.name == name


def test_none_found_is_an_answer_not_a_fault(engine):
    state = look(engine, name="nobody")
    assert state.count == 0
    assert state.chosen == Unknown(why="there is no such container")
    assert look(engine, choose="last_died").count == 0


def test_by_id_by_label_and_never_by_an_ambiguous_beginning(engine):
    one = engine.dies(options=("--label", "run=1", "--label", "job"))
    engine.dies(options=("--label", "run=2"))
    key = engine.inspect(one, "{{.Id}}")
    assert look(engine, name=key[:12]).chosen.name == one
    assert look(engine, name=key).chosen.id == key
    assert look(engine, name=key[:3]).count == 0
    assert [it.name for it in look(engine, labels=("run=1", "job")).containers] == [one]
    assert look(engine, labels=("run=2", "job")).count == 0


def test_a_restart_loop_is_seen_by_the_median_of_its_gaps(engine):
    engine("run", "-d", "--name", "loop", "--restart", "always", "--network", "none", "base:1", "false")
    calm = engine.lives()
    until(lambda: int(engine.inspect("loop", "{{.RestartCount}}")) >= 3)
    state = look(engine)
    seen = next(it for it in state.containers if it.name == "loop")
    assert state.looping == ("loop",)
    assert seen.restart_count >= 3
    assert seen.starts >= 3
    assert 0 < seen.median_gap < 60
    quiet = next(it for it in state.containers if it.name == calm)
    assert (quiet.starts, quiet.looping) == (1, False)
    engine("rm", "-f", "loop")


def test_one_long_pause_does_not_hide_a_loop_as_a_mean_would():
    times = (0.0, 17.0, 34.0, 447.0, 464.0, 481.0)
    assert Events(starts={"c": times}).gap("c") == 17.0
    assert isinstance(Events(starts={"c": (1.0,)}).gap("c"), Unknown)


def test_the_log_is_both_outputs_and_signatures_are_found(engine):
    text = "echo one; echo 'RuntimeError: CUDA out of memory. Tried to allocate' >&2; echo ' code 0'; echo 'container {}'; printf last"
    name = engine.dies("sh", "-c", text)
    for shell in (("dash",), ("bash",), ("busybox", "sh")):
        state = logs(engine, name, *shell)
        assert {*state.lines} == {
            "one",
            "RuntimeError: CUDA out of memory. Tried to allocate",
            " code 0",
            "container {}",
            "last",
        }
        assert state.found == ("gpu_out_of_memory",)
        assert state.counts == {"gpu_out_of_memory": 1, "cuda_error": 0, "disk_full": 0}
        assert state.matches[0].text.startswith("RuntimeError: CUDA")
        assert state.kept
        assert 0 <= state.last_age < 60
    assert len(logs(engine, name, tail=2).lines) == 2
    assert logs(engine, name, signatures={"x": "LAST"}).found == ()
    assert logs(engine, name, signatures={"x": "LAST"}, ignore_case=True).found == ("x",)


def test_an_empty_log_is_kept_and_a_driver_that_keeps_none_is_unknown(engine):
    empty = logs(engine, engine.dies())
    assert (empty.kept, empty.lines, empty.found) == (True, (), ())
    none = logs(engine, engine.dies("echo", "x", options=("--log-driver", "none")))
    assert (none.kept, none.driver) == (False, "none")
    assert "its log driver is none" in none.lines.why
    assert isinstance(none.found, Unknown)
    assert isinstance(none.counts["disk_full"], Unknown)
    nobody = logs(engine, "-nobody")
    assert "there is no container -nobody" in nobody.lines.why


def test_stopping_is_done_once_and_proven(engine):
    name = engine.lives()
    made, _, change = decided(engine, name=name, do="stop", grace=Duration(1))
    assert change.risk is Risk.RESTARTS_SERVICES
    assert [it.kind for it in change.targets] == ["container"]
    assert change.targets[0].key.startswith(engine.inspect(name, "{{.Id}}") + ":2")
    assert done(engine, name=name, do="stop", grace=Duration(1))[0] is True
    assert engine.inspect(name, "{{.State.Status}}") == "exited"
    assert isinstance(decided(engine, name=name, do="stop")[2], NoChange)
    assert isinstance(decided(engine, name="nobody", do="stop")[2], NoChange)
    assert made.name == name


def test_one_that_is_removed_when_it_ends_counts_as_stopped(engine):
    name = engine.lives("--rm")
    made, state, change = decided(engine, name=name, do="stop", grace=Duration(1))
    engine.machine().run(*change.commands)
    until(lambda: name not in engine.names())
    assert container.settled(made, state, drive(container.probe(made), engine.machine()))


def test_starting_and_restarting_make_a_new_life_of_it(engine):
    name = engine.lives()
    before = engine.inspect(name, "{{.State.StartedAt}}")
    assert isinstance(decided(engine, name=name, do="start")[2], NoChange)
    assert done(engine, name=name, do="restart", grace=Duration(1))[0] is True
    assert engine.inspect(name, "{{.State.StartedAt}}") != before
    engine("kill", name)
    assert done(engine, name=name, do="start")[0] is True


def test_one_that_ends_at_once_after_a_restart_is_not_settled(engine):
    name = engine.dies("false")
    made, state, change = decided(engine, name=name, do="restart")
    engine.machine().run(*change.commands)
    until(lambda: engine.inspect(name, "{{.State.Status}}") == "exited")
    after = drive(container.probe(made), engine.machine())
    assert not container.settled(made, state, after)
    assert "exited, exit code 1" in container.explain(made, state, after)


def test_a_life_that_is_over_is_left_alone(engine):
    name = engine.lives()
    _, _, change = decided(engine, name=name, do="stop", grace=Duration(1))
    engine("restart", "-t", "0", name)
    (answer,) = engine.machine().run(*change.commands)
    assert answer.exit_code == 3
    assert "left alone" in container.refused(change.commands[0], answer)
    assert engine.inspect(name, "{{.State.Status}}") == "running"


def test_policy_and_memory_are_updated_once(engine):
    name = engine.lives("--memory", "64m")
    wanted = {"name": name, "do": "update", "restart_policy": "on-failure:3", "memory": Size(128 << 20)}
    assert done(engine, **wanted)[0] is True
    assert (
        engine.inspect(name, "{{.HostConfig.Memory}} {{.HostConfig.RestartPolicy.Name}}") == f"{128 << 20} on-failure"
    )
    assert isinstance(decided(engine, **wanted)[2], NoChange)


def test_what_docker_refuses_is_told_in_its_words(engine):
    name = engine.lives()
    settled, answer = done(engine, name=name, do="update", memory=Size(1000))
    assert not settled
    assert "Minimum memory limit" in container.refused(None, answer)


@pytest.mark.parametrize("do", ["start", "restart", "update"])
def test_what_is_not_there_blocks(engine, do):
    more = {"restart_policy": "no"} if do == "update" else {}
    assert isinstance(decided(engine, name="nobody", do=do, **more)[2], Blocked)


def test_kubernetes_own_and_paused_ones_are_not_touched(engine):
    engine.lives(name="k8s_POD_x")
    assert "use kubectl" in decided(engine, name="k8s_POD_x", do="stop")[2].why
    name = engine.lives()
    engine("pause", name)
    assert "unpause" in decided(engine, name=name, do="restart")[2].why
    engine("unpause", name)


@every_row(
    "args",
    [
        {"do": "update"},
        {"do": "stop", "memory": Size(1)},
        {"do": "update", "restart_policy": "sometimes"},
        {"do": "update", "memory": Size(2), "memory_swap": Size(1)},
        {"do": "update", "memory_swap": Size(1)},
    ],
)
def test_arguments_that_make_no_sense_are_refused(args):
    with pytest.raises(ValueError, match=r"update|restart policy|memory"):
        container.Args(name="x", **args)


@pytest.mark.soak
def test_an_ambiguous_id_is_a_fault(engine):
    for _ in range(2):
        engine.dies()
    rows = look(engine).containers
    twins = [containers.Container(id="abcd" + it.id[4:], name=it.name, image="i", status="exited") for it in rows]
    with pytest.raises(ProbeError, match="several containers' ids begin with abcd"):
        containers._chosen(containers.Args(name="abcd"), twins)


def test_the_table_has_a_row_for_what_is_met_and_a_rule_for_the_rest():
    assert {0, 1, 2, 125, 126, 127, 128, 134, 137, 139, 143, 255} <= {*TABLE}
    assert all(it.meaning and it.cause and code == it.code for code, it in TABLE.items())
    assert explained(138).meaning == "terminated by SIGUSR1"
    assert explained(163).meaning == "terminated by signal 35"
    assert explained(77).meaning == "an error code of the program"
    assert explained(200).meaning == "an error code of the program"
    assert sentence(0, ()) == "0: ended normally"
    assert "not inspected" in sentence(137, (), "not inspected")


@pytest.mark.parametrize("module", [container, container_logs, containers])
def test_each_keeps_the_protocol(module):
    assert Action.of(module).summary.endswith(".")
