"""What a good playbook is warned about: every rule has a playbook that breaks it and one that keeps it."""

from __future__ import annotations

from pathlib import Path

from runbook.commands.input_files import read_playbook
from runbook.language.lint.linter import warnings_in
from runbook.language.lint.rules import RULES
from runbook.language.loader import load_playbook
from runbook.plugins import discover
from tests.support.program import runbook
from tests.support.tables import every_row

HEAD = "name: toy\n"
FINDING = "findings:\n  - {id: held, when: seen.matches, severity: error, gone_for: 5s, advise: Call somebody.}\n"
LOOK = "diagnose:\n  - {id: seen, processes: {patterns: ['python.*train\\.py']}}\n"
STOP = "remediate:\n  - {id: stop, for: held, pkill: {patterns: ['python.*train\\.py']}}\n"
WHOLE = HEAD + LOOK + FINDING + STOP


def warnings(text: str) -> list[str]:
    return list(map(str, warnings_in(load_playbook(text, "toy.yaml", discover()), text, discover())))


def rules(text: str) -> list[str]:
    return sorted({it.rpartition("[")[2].rstrip("]") for it in warnings(text)})


def test_a_playbook_that_keeps_every_rule_is_clean():
    assert warnings(WHOLE) == []


def pattern(text: str) -> str:
    return WHOLE.replace("pkill: {patterns: ['python.*train\\.py']}", f"pkill: {{patterns: ['{text}']}}")


def look(command: str, more: str = "") -> str:
    text = WHOLE.replace("findings:", f"  - {{id: two, {more}command: {command}}}\nfindings:")
    return text.replace("when: seen.matches", "when: seen.matches and two.exit_code")


def step(line: str) -> str:
    return WHOLE + f"  - {line}\n"


def ends(taken: str, chosen: str) -> str:
    text = WHOLE.replace("pkill: {patterns: ['python.*train\\.py']}", f'end: {{processes: "{{{{ {taken} }}}}"}}')
    return text.replace("when: seen.matches", f'when: "{chosen}"')


OTHERS = [
    ("seen.matches", "seen.leftover"),
    ("seen.leftover", "seen.leftover | selectattr('devices') | list"),
    ("seen.leftover", "not seen.leftover"),
]
"""What an `end` takes, and what its finding names."""

OFTEN = WHOLE.replace("processes:", "samples: {for: 10s, every: 1s}, processes:", 1).replace(
    "when: seen.matches", "when: \"seen | sustained('matches', 10)\""
)

LINES = WHOLE.replace(
    LOOK.strip(), "diagnose:\n  - {id: seen, log_scan: {files: [/x.log], signatures: {bad: BAD}}}"
).replace("when: seen.matches", "when: seen.found")

BROKEN = [
    ("idle-ending", WHOLE.replace("{id: seen, processes:", "{id: seen, pkill:"), 3),
    ("wide-pattern", pattern("ray"), 7),
    ("wide-pattern", pattern(".*ray.*"), 7),
    ("wide-pattern", pattern("python"), 7),
    ("wide-pattern", pattern("python3?"), 7),
    ("wide-pattern", pattern(r"\bpython\b"), 7),
    ("wide-pattern", pattern("train"), 7),
    ("no-timeout", look("{argv: [nvidia-smi, -L]}"), 4),
    ("no-timeout", look("{argv: [/usr/bin/curl, -s, 'http://localhost:8000/health']}"), 4),
    ("no-timeout", look("{script: 'for m in /mnt/*; do df -P $m; done'}"), 4),
    ("no-timeout", look("{argv: [python3, -c, import torch]}"), 4),
    ("unchecked-change", step("{id: more, for: held, command: {do: {argv: [touch, /x]}}}"), 8),
    ("no-advice", WHOLE.replace(", advise: Call somebody.", ""), 5),
    ("volume-prune", step("{id: more, for: held, timeout: 9s, command: {check: {argv: [test, -e, /x]}, do: {script: docker volume prune -f}}}"), 8),
    ("volume-prune", step("{id: more, for: held, timeout: 9s, command: {check: {argv: [test, -e, /x]}, do: {argv: [docker, system, prune, -f, --volumes]}}}"), 8),
    ("never-runs", WHOLE.replace("severity: error", "severity: warning").replace("for: held, ", ""), 7),
    ("never-runs", WHOLE.replace("for: held", "for: held, when: false"), 7),
    ("never-runs", WHOLE.replace("for: held", "for: held, when: 1 > 2"), 7),
    ("never-runs", WHOLE.replace("when: seen.matches", "when: false"), 5),
    ("never-runs", step("{id: tell, note: {text: hello}}\n  - {if_failed: tell, pause: {seconds: 1s}}"), 9),
    ("never-runs", step("{id: wait, pause: {seconds: 1s}}\n  - {if_changed: wait, note: {text: hello}}"), 9),
    ("unlinked-tags", WHOLE.replace("for: held", "tags: a, for: held") + "  - {after: stop, tags: b, note: {text: hello}}\n", 8),
    ("unused-input", WHOLE.replace(LOOK, "inputs:\n  knob: {about: x, default: 1}\n" + LOOK), 3),
    ("unused-value", WHOLE.replace("diagnose:", "let: {old: seen.matches, older: old}\ndiagnose:"), 2),
    ("unused-probe", WHOLE.replace("findings:", "  - {id: more, processes: {patterns: ['a_long_name']}}\nfindings:"), 4),
    ("ignored-last-rung", WHOLE.replace("for: held", "for: held, ignore_failure: true"), 7),
    ("no-gone-for", WHOLE.replace("gone_for: 5s, ", ""), 5),
    ("no-gone-for", WHOLE.replace("gone_for: 5s, ", "").replace("for: held, ", ""), 5),
    ("wider-remedy", WHOLE.replace("when: seen.matches", "when: \"seen.matches | rejectattr('user', 'in', ['root']) | list\""), 7),
    ("processes-elsewhere", ends("seen.leftover", "seen.leftover").replace("for: held,", "for: held, on: gpu-02,"), 7),
    ("processes-elsewhere", ends("seen.leftover", "seen.leftover").replace("{id: seen,", "{id: seen, once: true,"), 7),
    *(("wider-remedy", ends(taken, chosen), 7) for taken, chosen in OTHERS),
    ("wider-remedy", WHOLE.replace("when: seen.matches", "when: '(seen.matches)[0].seconds > 9'"), 7),
    ("long-expression", WHOLE.replace("when: seen.matches", f"when: seen.matches{' or seen.matches' * 12}"), 5),
    ("long-expression", WHOLE.replace("diagnose:", f"let: {{a: seen.matches{' or seen.matches' * 12}}}\ndiagnose:").replace("when: seen.matches", "when: a"), 2),
    ("long-expression", WHOLE.replace("findings:\n  - {", "findings:\n  - when: true\n    findings:\n      - {say: '{{ seen.matches" + " ~ seen.matches" * 10 + " }}', "), 7),
    ("lasting-lines", LINES, 5),
    ("lasting-lines", LINES.replace("seen.found", "seen.counts.bad > 0"), 5),
    ("samples-too-short", OFTEN.replace("10)", "11)"), 5),
    ("samples-too-long", OFTEN + "limits: {deadline: 9s}\n", 3),
    ("literal-secret", look("{argv: [/bin/x]}", "env: {API_TOKEN: abc-4711}, "), 4),
    ("literal-secret", look("{argv: [/bin/x, --password, abc-4711]}"), 4),
    ("literal-secret", WHOLE.replace("findings:", "  - {id: web, http: {url: 'http://x/', headers: {X-Api-Key: abc-4711}}}\nfindings:"), 4),
    ("literal-secret", WHOLE.replace(LOOK, "inputs:\n  api_key: {about: x, default: abc-4711}\n" + LOOK), 3),
    ("undeclared-secret", look("{argv: [/bin/x]}", "env: {API_TOKEN: '{{ secrets.api }}'}, "), 4),
    ("unused-secret", WHOLE.replace(LOOK, "secrets:\n  api: {env: API}\n" + LOOK), 3),
    ("batches-without-end", WHOLE + "limits: {batches: [1, 100%]}\n", 8),
]  # fmt: skip


@every_row(("rule", "text", "line"), BROKEN)
def test_a_broken_rule_is_named_with_its_place(rule, text, line):
    found = [it for it in warnings(text) if it.endswith(f"[{rule}]")]
    assert found, warnings(text)
    assert found[0].startswith(f"toy.yaml:{line}:"), found
    assert ": warning: " in found[0]


def test_an_input_that_only_a_template_file_names_is_used(tmp_path):
    (tmp_path / "conf.j2").write_text("{% for one in inputs.knobs %}{{ one }}{% endfor %}")
    book = f"{HEAD}inputs: {{knobs: {{about: x, default: [a]}}, idle: {{about: x, default: 1}}}}\n"
    book += "remediate:\n  - {file: {path: /etc/x.conf, template: conf.j2}}\n"
    (tmp_path / "toy.yaml").write_text(book)
    said = runbook("check", "toy.yaml", cwd=tmp_path).out
    assert "'idle' is not used" in said
    assert "'knobs'" not in said


@every_row(("rule", "text", "line"), BROKEN)
def test_a_comment_on_the_line_or_above_it_switches_a_rule_off_there(rule, text, line):
    lines = text.splitlines()
    above = "\n".join(
        [*lines[: line - 1], f"# runbook: allow {rule} because we say so", "# and more", *lines[line - 1 :]]
    )
    beside = "\n".join([*lines[: line - 1], f"{lines[line - 1]}  # runbook: allow {rule}, {rule}", *lines[line:]])
    for one in (above, beside):
        left = [it.partition(": warning: ")[2] for it in warnings(one)]
        here = [it.partition(": warning: ")[2] for it in warnings(text) if it.startswith(f"toy.yaml:{line}:")]
        gone = [it for it in here if it.endswith(f"[{rule}]")]
        assert gone
        assert sorted(left) == sorted({it.partition(": warning: ")[2] for it in warnings(text)} - set(gone))
    elsewhere = f"# runbook: allow {rule}\n{text}"
    assert rule in rules(elsewhere)


def test_every_rule_is_broken_here_and_says_why_and_how_it_is_kept():
    assert {rule for rule, _, _ in BROKEN} == {it.id for it in RULES}
    for it in RULES:
        assert it.why.endswith(".")
        assert it.example


KEPT = [
    ends("seen.leftover", "seen.leftover").replace("for: held,", "for: held, on: gpu-02,").replace("{id: seen,", "{id: seen, on: gpu-02,"),
    ends("seen.leftover", "seen.leftover"),
    ends("seen.leftover | selectattr('devices') | list", "seen.leftover | selectattr('devices') | list"),
    ends("seen.leftover", "seen.leftover and seen.matches"),
    OFTEN,
    OFTEN + "limits: {deadline: 11s}\n",
    pattern("sglang"),
    pattern(r"(^|[ /])ray(::|let)"),
    pattern(r"areal\.launcher"),
    pattern(r"\bray::"),
    look("{argv: [nvidia-smi, -L]}", "timeout: 10s, "),
    look("{argv: [timeout, '5', nvidia-smi]}"),
    look("{argv: [curl, --max-time, '3', 'http://localhost']}"),
    look("{argv: [cat, /var/log/docker-git.log]}"),
    step("{id: more, for: held, command: {check: {argv: [test, -e, /x]}, do: {argv: [touch, /x]}}}"),
    WHOLE.replace("for: held, ", ""),
    step("{if_failed: stop, note: {text: hello}}"),
    step("{if_changed: stop, note: {text: hello}}"),
    WHOLE.replace("severity: error", "severity: info").replace("gone_for: 5s, ", ""),
    WHOLE.replace("when: seen.matches", "when: \"seen.matches and inputs['knob']\"").replace("diagnose:", "inputs: {knob: {about: x, default: 1}}\ndiagnose:"),
    WHOLE.replace("for: held", "for: held, ignore_failure: true") + "  - {id: last, for: held, note: {text: Call somebody.}}\n",
    HEAD + LOOK,
    WHOLE + 'limits: {batches: [1, 100%], stop_after: "10%"}\n',
]  # fmt: skip


@every_row("text", KEPT)
def test_what_is_meant_well_is_not_warned_about(text):
    assert warnings(text) == []


def test_patterns_that_are_the_default_of_an_input_are_looked_at_where_they_stand():
    inputs = "inputs:\n  p:\n    about: x\n    default:\n      - good_one\n      - ray\n"
    text = WHOLE.replace(LOOK, inputs + LOOK).replace(
        "pkill: {patterns: ['python.*train\\.py']}", 'pkill: {patterns: "{{ inputs.p }}"}'
    )
    (found,) = warnings(text)
    assert found.startswith("toy.yaml:7:9: warning: the pattern 'ray' also matches")


def test_comments_that_allow_nothing_are_named():
    found = warnings(WHOLE + "# runbook: allow no-gone-for, no-advise\n")
    assert [it.partition(": warning: ")[2] for it in found] == [
        "no rule is called 'no-advise' (did you mean no-advice?) [allow]",
        "nothing here needs `allow no-gone-for` (remove the comment) [allow]",
    ]


def test_every_playbook_that_ships_is_good_and_clean():
    for path in sorted(Path(__file__).parents[2].joinpath("playbooks").glob("*.yaml")):
        book = read_playbook(path, discover())
        assert warnings_in(book, path.read_text(), discover()) == []


def test_check_warns_and_is_strict_only_if_told(tmp_path):
    path = tmp_path / "toy.yaml"
    path.write_text(pattern("ray"))
    said = runbook("check", str(path))
    assert said.code == 0
    assert f"{path}:7:46: warning: the pattern 'ray'" in said.out
    assert "good (2 steps, 1 finding, 1 warning)" in said.out
    assert runbook("check", "--strict", str(path)).code == 2
    path.write_text(WHOLE)
    assert runbook("check", "--strict", str(path)).code == 0
    path.write_text(WHOLE + "nonsense: 1\n")
    assert runbook("check", str(path)).code == 2
    assert runbook("check", cwd=tmp_path).code == 2
    listed = runbook("check", "--rules")
    assert listed.code == 0
    assert all(f"{it.id}\n" in listed.out for it in RULES)
