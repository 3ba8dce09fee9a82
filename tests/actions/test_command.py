"""The author's own commands: as looks they are read exactly, as changes they are checked."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runbook.codec import to_json
from runbook.errors import ConfigError, ProbeError
from runbook.language.arguments import build
from runbook.library.commands import command
from runbook.library.commands.facts.output_parsing import parsed, problem_with
from runbook.programs.mutating_programs import mutating_command
from runbook.protocols import Fails, Holds
from runbook.values.command import Effect
from runbook.values.plan import Change, NoChange, Risk
from runbook.values.types import Unknown
from tests.support.probe_driver import SHELLS, Here, drive
from tests.support.real_processes import each
from tests.support.tables import every_row


def look(timeout=60.0, **values):
    made = build(command.Args, values)
    here = Here(timeout=timeout)
    state = drive(command.probe(made), here)
    assert all(it.effect is Effect.READ and it.foreign for it in here.sent)
    return state


def test_a_program_gets_each_argument_unchanged():
    odd = "a b'c\"d$HOME`x`{}@\n*"
    assert look(argv=["printf", "%s", odd]).stdout == odd


def test_a_script_gets_its_parameters_as_parameters():
    assert look(script='printf "%s|" "$@"', params=["$(id)", "a b", "'"]).value == "$(id)|a b|'|"


def test_an_exit_code_that_is_no_answer_is_a_fault_with_its_words():
    with pytest.raises(ProbeError, match=r"exited with 3, wanted 0: no luck"):
        look(script="echo no luck >&2; exit 3")
    assert look(script="exit 3", accepts=[0, 3]).exit_code == 3


def test_a_program_that_is_missing_or_hangs_is_a_fault():
    with pytest.raises(ProbeError, match="exited with 127"):
        look(script="surely-no-such-program 2>/dev/null")
    with pytest.raises(ProbeError, match="did not end within"):
        look(argv=["sleep", "9"], timeout=0.3)


@every_row(
    ("form", "text", "value"),
    [
        ("text", "a\nb\n\n", "a\nb"),
        ("lines", "a\r\n\nb", ["a", "b"]),
        ("json", '{"a": [1, null]}', {"a": [1, None]}),
        ("csv", "a, b\n1, 'x'\n\"2,3\", \n", [{"a": "1", "b": "'x'"}, {"a": "2,3", "b": ""}]),
        ({"regex": r"(?P<n>\d+) of (?P<m>\d+)"}, "7 of 9", {"n": "7", "m": "9"}),
        ({"regex": r"^b(\d)$"}, "a1\nb2\n", "2"),
        ({"regex": r"(.)-(.)"}, "x-y", ["x", "y"]),
        ({"regex": "b+"}, "abba", "bb"),
    ],
)
def test_what_a_look_printed_becomes_a_value(form, text, value):
    assert look(argv=["printf", "%s", text], parse=form).value == value


@every_row(
    ("form", "text"),
    [
        ("json", "{"),
        ("json", ""),
        ("json", "NaN"),
        ("csv", ""),
        ("csv", "a,a\n1,2"),
        ("csv", "a,b\n1"),
        ({"regex": "z"}, "abc"),
    ],
)
def test_what_does_not_parse_is_unknown_and_never_empty(form, text):
    state = look(argv=["printf", "%s", text], parse=form)
    assert isinstance(state.value, Unknown)
    assert state.exit_code == 0


@given(st.text(max_size=60), st.sampled_from(["text", "lines", "json", "csv", {"regex": "(a)|(b)"}]))
def test_any_text_parses_or_is_unknown(text, form):
    json.dumps(to_json(parsed(text, form)))


@every_row(
    ("values", "words"),
    [
        ({}, "give `argv` or `script`"),
        ({"argv": ["a"], "script": "b"}, "not both"),
        ({"argv": ["a"], "do": {"argv": ["b"]}}, "give `argv` or `script`"),
        ({"argv": ["a"], "check": {"argv": ["b"]}}, "no `do`"),
        ({"do": {"params": ["x"]}}, "parameters of a `script`"),
        ({"argv": ["a"], "params": ["x"]}, "parameters of a `script`"),
        ({"argv": ["a"], "parse": "yaml"}, "one of text, lines, json, csv"),
        ({"argv": ["a"], "parse": {"regex": "("}}, "not a regular expression"),
        ({"argv": ["a"], "parse": {"rx": "("}}, "regex"),
        ({"do": {"argv": ["a"]}, "parse": "json"}, "not to a change"),
        ({"argv": [""]}, "name is empty"),
        ({"argv": ["a"], "accepts": []}, "at least 1"),
        ({"argv": ["a"], "acepts": [1]}, "unknown key"),
    ],
)
def test_a_mistake_in_the_arguments_is_refused(values, words):
    with pytest.raises(ConfigError, match=words):
        build(command.Args, values)


def change(tmp_path, check="test -e {}", do="touch {}"):
    place = str(tmp_path / "made")
    values = {"check": {"script": check.format(place)}, "do": {"script": do.format(place)}}
    return build(command.Args, values if check else {"do": values["do"]})


def test_a_check_decides_whether_the_change_is_needed_and_again_afterwards(tmp_path):
    made, here = change(tmp_path), Here()
    before = drive(command.probe(made), here)
    decision = command.decide(made, before)
    assert isinstance(decision, Change)
    assert (decision.verifiable, decision.commands[0].effect, decision.commands[0].foreign) == (
        True,
        Effect.WRITE,
        True,
    )
    assert isinstance(command.holds(made, before), Fails)
    here.run(*decision.commands)
    after = drive(command.probe(made), here)
    assert isinstance(command.decide(made, after), NoChange)
    assert isinstance(command.holds(made, after), Holds)


def test_a_check_that_says_neither_yes_nor_no_is_a_fault(tmp_path):
    with pytest.raises(ProbeError, match=r"the check exited with 2, wanted 0 \(nothing to do\) or 1 \(needed\)"):
        drive(command.probe(change(tmp_path, check="exit 2")), Here())


def test_a_check_that_still_says_needed_is_told(tmp_path):
    made = change(tmp_path, check="echo still down; exit 1")
    state = drive(command.probe(made), Here())
    assert command.explain(made, state, state) == "done, but its check still exits with 1: still down"


def test_a_change_without_a_check_asks_nothing_and_is_never_verified(tmp_path):
    made, here = change(tmp_path, check=""), Here()
    state = drive(command.probe(made), here)
    decision = command.decide(made, state)
    assert here.sent == []
    assert (decision.risk, decision.verifiable) == (Risk.UNKNOWN, False)
    assert isinstance(state.exit_code, Unknown)


@every_row(
    ("do", "risk"),
    [
        ("systemctl restart docker", Risk.RESTARTS_SERVICES),
        ("rm -rf x; kill 3", Risk.DELETES_DATA),
        ("frob", Risk.UNKNOWN),
    ],
)
def test_a_checked_change_has_the_worst_risk_that_is_known_of_it(tmp_path, do, risk):
    made = change(tmp_path, check="exit 1", do=do)
    assert command.decide(made, drive(command.probe(made), Here())).risk is risk


CHANGES = [
    "rm -rf /tmp/x",
    "sudo -n -u root -- rm x",
    "/bin/rm x",
    "kill 4",
    "kill -9 4",
    "pkill -f train",
    "killall python",
    "mv a b",
    "dd if=/dev/zero of=/x",
    "docker rm c",
    "docker system prune -f",
    "docker container prune",
    "docker stop c",
    "docker exec c rm x",
    "podman kill c",
    "systemctl restart docker",
    "systemctl --user stop x",
    "service docker restart",
    "nvidia-smi --gpu-reset -i 0",
    "date -s 2030-01-01",
    "date -us 2030-01-01",
    "date 010100002030",
    "hostname evil",
    "hwclock -w",
    "timedatectl set-time 12:00",
    "hostnamectl set-hostname x",
    "loginctl terminate-user 1000",
    "systemd-run touch /x",
    "at now",
    "renice 5 -p 1",
    "ipcrm -a",
    "crictl rm x",
    "ray stop",
    "blockdev --setro /dev/sda",
    "fsfreeze -f /mnt",
    "busctl call a b c d",
    "redis-cli flushall",
    "psql -c 'drop table x'",
    "psql -c 'select 1; delete from x'",
    "wget --post-data=x http://h",
    "ssh -p 22 h touch /x",
    "ssh h 'rm -rf /x'",
    "nvidia-smi -L -f /x",
    "dcgmi config --set -e 1",
    "nvidia-smi -r",
    "nvidia-smi -i 0 -pm 1",
    "timeout -k 5 30 nvidia-smi -mig 1",
    "reboot",
    "shutdown -r now",
    "apt-get install -y psmisc",
    "pip install torch",
    "sed -i s/a/b/ x",
    "truncate -s 0 x",
    "echo a > x",
    "echo a >> x",
    "cat a 2>err.log",
    "find / -name core -delete",
    "find / -name x -exec rm {} +",
    "find / -name x -execdir rm {} +",
    "find / -name x -ok rm {} \\;",
    "find / -name x -okdir rm {} \\;",
    "ps aux | xargs kill",
    "fuser -k /dev/nvidia0",
    "fuser -vk /dev/nvidia0",
    "a && reboot",
    "if true; then rm x; fi",
    "for i in 1; do kill $i; done",
    "x=$(rm y)",
    "echo `rm y`",
    "env A=1 B=2 reboot",
    "sh -c 'rm x'",
    "journalctl --vacuum-size=1G",
    "dmesg -c",
    "git -C /x pull",
    "sysctl -w a=1",
    "sysctl a.b=1",
    "curl -X POST http://x",
    "curl -d a=1 http://x",
    "kubectl delete pod x",
    "tee x",
    "chmod 700 x",
    "crontab -r",
    "modprobe nvidia",
    "umount /x",
    "! rm x",
    "tar xf a.tar",
    "mkfs.ext4 /dev/sdz",
    "kubectl exec pod -- rm x",
    "scontrol update nodename=a state=resume",
    "busybox rm x",
    "nohup rm x &",
    "echo a >| x",
]

LOOKS = [
    "ls -l",
    "nvidia-smi",
    "date +%s",
    "date -d 20260101 +%F",
    "hostname -f",
    "hostname",
    "hwclock --show",
    "timedatectl show",
    "loginctl show-user root",
    "crictl ps",
    "psql -c 'select updated from settings'",
    "redis-cli info",
    "wget -qO- http://h",
    "ssh -p 22 h uptime",
    "dcgmi discovery -l",
    "nvidia-smi -q",
    "nvidia-smi --query-gpu=index --format=csv,noheader",
    "nvidia-smi -L",
    "nvidia-smi -i 0 -q",
    "nvidia-smi topo -m",
    "docker ps",
    "docker logs rm",
    "docker inspect kill",
    "systemctl status docker",
    "systemctl is-active restart.service",
    "df -P 2>/dev/null",
    "a 2>&1",
    "echo hi >&2",
    "ps aux | grep kill",
    "grep -r rm /x",
    "fuser -v /dev/nvidia0",
    "dd if=/dev/zero count=0",
    "mount",
    "sysctl kernel.x",
    "find / -name x",
    "kill -0 4",
    "dmesg -T",
    "journalctl -k -n 5",
    "git status",
    "pip list",
    "echo 'a > b'",
    "awk '$5 > 90' x",
    "test -e rm",
    "tar tf a",
    "python3 -c 'import torch'",
    "docker exec c nvidia-smi -L",
    "docker run --rm x nvidia-smi",
    "curl -s http://localhost:80",
    "sed -n 1,2p x",
    "[ 3 -gt 2 ] && echo y",
    "command -v rm",
    "while read -r a; do echo $a; done < /etc/hosts",
    "ip addr",
    "cat <<E >/dev/null\nhello\nE",
    "# rm x\nls",
]


@every_row("line", CHANGES)
def test_a_look_that_is_known_to_change_things_is_refused(line):
    assert "may not change the host" in command.objection(build(command.Args, {"script": line}))
    assert command.objection(build(command.Args, {"do": {"argv": ["x"]}, "check": {"script": line}}))
    assert command.objection(build(command.Args, {"do": {"script": line}})) == ""


@every_row("line", LOOKS)
def test_a_look_that_only_looks_is_allowed(line):
    assert command.objection(build(command.Args, {"script": line})) == ""


def test_a_program_is_judged_like_a_script():
    assert command.objection(build(command.Args, {"argv": ["sudo", "pkill", "x"]}))
    assert not command.objection(build(command.Args, {"argv": ["echo", "a", ">", "rm"]}))


@given(st.text(max_size=80))
def test_any_script_can_be_judged(script):
    mutating_command((), script)
    mutating_command(tuple(script.split()))


@pytest.mark.slow
@given(
    st.recursive(st.none() | st.text(max_size=5) | st.integers(), lambda it: st.dictionaries(st.text(max_size=5), it))
)
def test_any_form_is_judged_in_words(form):
    assert isinstance(problem_with(form), str)


@pytest.mark.parametrize("shell", each(SHELLS))
def test_the_words_of_a_look_by_hand_are_its_own_line(shell):
    made = build(command.Args, {"argv": ["printf", "%s", "a b"]})
    assert command.by_hand(made) == ("printf %s 'a b'",)
