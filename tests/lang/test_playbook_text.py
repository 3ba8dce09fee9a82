"""``runbook show``: a playbook in words that a person could follow by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from runbook.commands.input_files import read_playbook
from runbook.commands.show import playbook_lines
from runbook.commands.show.layout import width
from runbook.language.loader import load_playbook
from runbook.plugins import discover
from tests.support.tables import every_row

INNER = """\
name: inner
inputs: {p: {about: x, default: [inner_word]}}
diagnose:
  - {id: seen, processes: {patterns: "{{ inputs.p }}"}}
findings:
  - {id: held, when: seen.matches, severity: error}
remediate:
  - {id: stop, for: held, pkill: {patterns: "{{ inputs.p }}", grace: 1m}}
"""

BOOK = """\
name: toy
about: Shows every key.
hosts: gpu
inputs:
  words: {about: What to look for., default: [zombie_x, "a, b"]}
  leader: {about: Who knows., default: gpu-01}
  gently: {about: Whether., type: boolean, default: true}
  minutes: {about: For how long., default: 10}
  key: {about: A secret., secret: true, default: hunter2}
diagnose:
  - {id: one, each: inputs.words, retry: {times: 2, every: 3s}, processes: {patterns: ["{{ item }}"]}}
  - {id: two, once: true, on: "{{ inputs.leader }}", timeout: 10s, cwd: /tmp, env: {A: b c}, become: me, scratch: true,
     command: {argv: [cat, "/x y"]}, tags: [slow, deep]}
  - {id: sub, include: inner, inputs: {p: "{{ inputs.words }}"}}
  - {id: often, samples: {for: "{{ inputs.minutes * 60 }}", every: 10s, while: leftover}, processes: {patterns: [zombie_x]}}
findings:
  - {id: f, when: one, severity: error, settle: 10s, gone_for: 5s, say: "{{ one | length }} left", advise: [Call.]}
remediate:
  - {id: stop, for: f, confirm: true, each: [red_x, blue_x], pkill: {patterns: ["{{ item }}"], grace: 90s}}
  - {id: tell, if_changed: stop, note: {text: Hello.}}
  - {id: back, if_failed: [stop, tell], always: true, on: controller,
     command: {check: {argv: [test, -e, /x]}, do: {script: "touch $1", params: [/x]}}}
  - {id: all, include: inner}
  - {id: rest, when: inputs.gently, after: [stop], ignore_failure: true, pause: {seconds: 5s}}
verify:
  - {id: gone, processes: {patterns: [zombie_x]}, within: 3m, every: 10s}
  - {id: stays, samples: {times: 3}, processes: {patterns: [zombie_x]}}
limits: {batches: [1, "10%", "100%"], stop_after: 3, deadline: 30m,
  max_unavailable: 25%, max_concurrent_per: {rack: 1}, order: sorted, pause_between: 20s, host_deadline: 5m}
"""

SENTENCES = """\
toy: Shows every key.
(toy.yaml; for hosts: gpu)
What to look for. (default zombie_x, 'a, b')
gently: Whether. (default true)
key: A secret. (default ***)
Once for every item of inputs.words (zombie_x, 'a, b'); the commands show it as ITEM.
If the probe itself fails, repeat it up to 2 times, every 3 s.
Probed once; all hosts share the answer.
On the host gpu-01.
Each command may take 10 s.
As me.
In the folder /tmp.
With A=b c in the environment.
Creates temporary files of its own on the host, and removes them.
Take samples for 10 min, one every 10 s, as long as leftover.
Take 3 samples, one every 2 s; it must be true in every sample.
Tagged slow, deep (see --tags and --skip-tags).
cd /tmp export A='b c' cat '/x y'
from the playbook that is included as sub with p = {{ inputs.words }}:
1.3 Find processes by their command lines, and tell leftovers from jobs at work [sub_seen] patterns: zombie_x, 'a, b'
from the playbook that is included as all:
[all_seen] patterns: inner_word
2.3 error [f] <one> left
after a change, wait up to 10 s for it to go, counts as gone only after staying gone for 5 s
if it is still present: 1. Call.
Only while f is present.
Asks for a yes first (without a terminal: give --yes).
grace: 90 s
Only if stop changed something. text: Hello.
Only if stop or tell failed, even if the failure stopped the other steps.
Always, whatever happened before; reported as owed (pending) if the host cannot be reached.
On the controller, which is this machine.
check: argv = [test, -e, /x] do: script = touch $1, params = [/x]
Only while all_held is present.
grace: 60 s
from this playbook's own steps: 3.5
Only when inputs.gently. Only while an error finding is present. After stop, and not if that broke. A failure is shown, but does not change the verdict.
4.1 Find processes
Probe again every 10 s until it is true, for 3 min at most.
The whole run ends after 30 min.
Hosts are changed in batches, each started when the one before has ended: 1; then 10%; then all the others.
A batch in which every host is unwell is the last one.
Between two batches it waits 20 s.
Once 3 hosts are failed, unresolved, unknown, unreachable or cancelled, no further host is started.
Never more than 25% of the hosts are being changed, or failed, unresolved, unknown, unreachable or cancelled.
At most 1 host with the same rack at once.
Hosts are taken in this order: sorted.
The work on one host ends after 5 min.
""".splitlines()


def shown(text: str) -> str:
    book = load_playbook(text, "toy.yaml", discover(), lambda name, file: ("inner.yaml", INNER))
    lines = playbook_lines(book, "toy.yaml", discover())
    assert all(len(it) <= 200 for it in lines)
    return " ".join(" ".join(lines).split())


@every_row("sentence", SENTENCES)
def test_every_key_is_a_sentence(sentence):
    assert sentence in shown(BOOK), shown(BOOK)


def test_what_hosts_are_compared_by_is_shown():
    text = shown(
        "name: toy\ndiagnose:\n  - {id: a, memory: {}}\nfindings:\n"
        "  - {id: b, across: {value: a.swap_used, by: host.rack}, when: across.value > across.lowest, severity: info}\n"
    )
    assert "compared across all hosts, once each is probed: a.swap_used, by host.rack when: across.value" in text


def test_nothing_of_our_own_shows_through():
    for word in ("Program(", "Where(", "None", "True", "False", "Unknown(", "hunter2"):
        assert word not in shown(BOOK)


def test_a_section_that_is_empty_is_left_out():
    text = shown("name: toy\ndiagnose:\n  - {id: a, processes: {patterns: [some_thing]}}\n")
    assert "1. DIAGNOSE" in text
    for heading in ("INPUTS", "2. FINDINGS", "3. REMEDIATE", "4. VERIFY"):
        assert heading not in text
    alone = shown("name: toy\nremediate:\n  - {pkill: {patterns: [some_thing]}}\n")
    assert "each step decides by its own probe" in alone
    assert "while an error finding is present" not in alone


CHANGING = (
    "  - {id: pack, package: {names: [psmisc]}}\n"
    '  - {id: conf, file: {path: /etc/x.conf, content: "a"}}\n'
    "  - {id: unit, service: {name: x, state: restarted}}\n"
    "  - {id: dead, docker_prune: {what: [containers]}}\n"
)


def test_what_only_looks_is_no_advice_to_change_anything():
    looked = shown("name: toy\ndiagnose:\n" + CHANGING)
    for words in ("apt-get", "vi /etc", "systemctl restart", "docker rm", "by hand"):
        assert words not in looked, looked
    done = shown("name: toy\nremediate:\n" + CHANGING)
    for words in ("apt-get", "vi /etc", "systemctl restart", "docker rm"):
        assert words in done, done


def test_who_ends_what_is_left_over_by_hand_is_told_to_spare_jobs_at_work():
    step = (
        "name: toy\nremediate:\n  - {pkill: {patterns: [train], only: %s}}\n  - {fuser: {paths: [/dev/x], only: %s}}\n"
    )
    assert shown(step % ("leftover", "leftover")).count("leave out every job that keeps a GPU busy") == 2
    assert "leave out" not in shown(step % ("all", "all"))


def test_what_a_look_has_yet_to_see_keeps_no_line_from_being_shown():
    book = (
        "name: toy\ndiagnose:\n  - {id: kernel, kernel_log: {}}\nremediate:\n"
        '  - {pkill: {patterns: [train], lost: "{{ kernel.lost_gpus }}"}}\n'
    )
    assert "pgrep -af -- train" in shown(book)
    assert "lost: {{ kernel.lost_gpus }}" in shown(book)


def test_what_stands_in_for_an_empty_input_is_not_shown_as_what_will_be_run():
    book = (
        "name: toy\ninputs: {program: {about: x, type: array, items: {type: string}, default: []}}\nremediate:\n"
        "  - {when: inputs.program, tmux: {session: a, argv: \"{{ inputs.program or ['true'] }}\"}}\n"
    )
    assert "argv: {{ inputs.program or ['true'] }}" in shown(book)
    assert "by hand" not in shown(book)


@every_row("path", sorted(Path(__file__).parents[2].joinpath("playbooks").glob("*.yaml")), ids=lambda it: it.stem)
def test_every_playbook_that_ships_can_be_told(path):
    lines = playbook_lines(read_playbook(path, discover()), str(path), discover())
    assert "Unknown(" not in "\n".join(lines)
    assert len(lines) > 10


@every_row("columns", [50, 72, 110])
def test_what_show_says_is_no_wider_than_the_terminal_but_for_lines_to_be_pasted(columns):
    """Mutants: the width is not handed on to the steps, the inputs, the findings; long words are cut."""
    actions = discover()
    path = Path(__file__).parents[2] / "playbooks" / "zombie-gpu.yaml"
    lines = playbook_lines(read_playbook(path, actions), "zombie-gpu.yaml", actions, columns)
    by_hand, long = False, []
    for line in lines:
        by_hand = line.strip() == "by hand:" or (by_hand and line.startswith(" " * 8))
        code = by_hand or not line.startswith(" ") or " " not in line.strip()
        if len(line) > columns and not code:
            long.append(line)
    assert not long
    assert max(map(len, lines[:20])) > columns - 15, "the room is used"
    assert any("--query-compute-apps=gpu_uuid,pid,process_name,used_gpu_memory --format=csv" in it for it in lines)


@pytest.mark.parametrize(("columns", "wide"), [("60", 60), ("7", 40), ("500", 110), ("", 110), ("x", 110)])
def test_the_width_is_that_of_columns(monkeypatch, columns, wide):
    monkeypatch.setenv("COLUMNS", columns)
    assert width() == wide
