"""``runbook find``: from an error text to the playbooks that are for it."""

from __future__ import annotations

import json
import os
import subprocess
import time
from functools import cache
from io import BytesIO
from pathlib import Path

import pytest
import yaml

from runbook.commands.find import (
    MAX_LINES_OF_A_MESSAGE,
    MAX_SEARCHED_BYTES,
    SymptomSearch,
    playbooks_for,
    read_error_text,
)
from runbook.commands.input_files import library, read_playbook
from runbook.commands.playbook_index import PlaybookCard, card_of, playbook_cards
from runbook.errors import ConfigError
from runbook.language import checks
from runbook.language.loader import load_playbook
from runbook.plugins import discover
from runbook.values.playbook import Symptom, SymptomKind
from tests.support.program import PROGRAM, runbook
from tests.support.tables import every_row

CASES = yaml.safe_load((Path(__file__).parents[1] / "data" / "symptoms.yaml").read_text())
BUSY = "torch.AcceleratorError: CUDA error: CUDA-capable device(s) is/are busy or unavailable"
NOBODY = "error: cannot borrow `v` as mutable"
MINE = "name: mine\nabout: Mend my flux.\nsymptom: [the flux capacitor is dry, {pattern: 'flux=.*'}]\n"


@cache
def books() -> tuple[PlaybookCard, ...]:
    actions = discover()
    return tuple(card_of(path.stem, read_playbook(path, actions), actions) for path in sorted(library().glob("*.yaml")))


def named(text: str, playbooks: tuple[PlaybookCard, ...] | None = None) -> list[str]:
    return [found.playbook.name for found in SymptomSearch(text).found_in(playbooks or books())]


def toy(name: str, *texts: str, patterns: tuple[str, ...] = ()) -> PlaybookCard:
    hard = tuple(Symptom(written=pattern, kind=SymptomKind.PATTERN) for pattern in patterns)
    return PlaybookCard(name=name, symptoms=(*(Symptom(written=text) for text in texts), *hard))


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    (tmp_path / "playbooks").mkdir(mode=0o755)
    (tmp_path / "playbooks" / "mine.yaml").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


# -- the library


def test_there_are_at_least_seventy_errors_and_ten_of_other_trades():
    assert len(CASES["errors"]) >= 70
    assert len(CASES["others"]) >= 10
    assert {case["playbook"] for case in CASES["errors"]} <= {book.name for book in books()}


@every_row(("playbook", "text"), [(case["playbook"], case["text"]) for case in CASES["errors"]])
def test_an_error_leads_to_its_playbook(playbook, text):
    assert named(text)[:1] == [playbook], named(text)


@every_row(("name", "text"), [(case["name"], case["text"]) for case in CASES["others"]])
def test_an_error_of_another_trade_leads_nowhere(name, text):
    assert named(text) == []


def test_a_playbook_has_three_to_eight_symptoms_of_its_own_or_none():
    own = (SymptomKind.TEXT, SymptomKind.PATTERN)
    counts = {book.name: sum(symptom.kind in own for symptom in book.symptoms) for book in books() if book.symptoms}
    assert len(counts) >= 25
    assert {name: count for name, count in counts.items() if not 3 <= count <= 8} == {}


def test_every_plain_symptom_of_the_library_finds_its_playbook():
    wrong = [
        (book.name, symptom.written)
        for book in books()
        for symptom in book.symptoms
        if symptom.kind is SymptomKind.TEXT and book.name not in named(symptom.written)
    ]
    assert wrong == []


# -- the order


def test_the_longer_match_stands_first():
    general, special = toy("a-general", "GPU has"), toy("special", "GPU has fallen off the bus")
    assert named("GPU has fallen off the bus", (general, special)) == ["special", "a-general"]


def test_more_symptoms_stand_before_one_of_the_same_length():
    one, two = toy("a-one", "alpha beta"), toy("two", "alpha beta", "gamma")
    assert named("alpha beta gamma", (one, two)) == ["two", "a-one"]


def test_the_last_match_counts_more_than_the_first():
    first, last = toy("first", "alpha beta gamma"), toy("last", "delta epsilon")
    lines = ["alpha beta gamma", *["nothing"] * 200, "delta epsilon"]
    assert named("\n".join(lines), (first, last)) == ["last", "first"]
    assert named("\n".join(lines[::-1]), (first, last)) == ["first", "last"]


def test_of_a_symptom_the_last_match_counts():
    (found,) = SymptomSearch("alpha 1\nother\nalpha 2\nend").found_in([toy("a", patterns=(r"alpha [0-9]",))])
    assert (found.matches[0].text, found.matches[0].line) == ("alpha 2", 3)


def test_of_matches_far_apart_the_last_one_counts():
    text = "\n".join(["alpha 1", *["nothing at all"] * 20_000, "alpha 2"])
    (found,) = SymptomSearch(text).found_in([toy("a", patterns=(r"alpha [0-9]",))])
    assert found.matches[0].text == "alpha 2"


def test_a_text_broken_over_lines_is_found():
    (found,) = SymptomSearch("x\nGPU has\n  fallen off\n").found_in([toy("a", "GPU has fallen off")])
    assert found.matches[0].text.split() == ["GPU", "has", "fallen", "off"]


def test_a_pattern_that_takes_half_a_line_is_not_better_for_it():
    wide, narrow = toy("wide", patterns=("alpha.*",)), toy("a-narrow", "x" * 80)
    assert named("alpha " + "y" * 5000 + " " + "x" * 80, (wide, narrow)) == ["a-narrow", "wide"]


# -- signs of steps

SIGNS = """name: mine
about: Mend my flux.
symptom: [the flux capacitor is dry, {signs: log}]
inputs:
  own: {about: A pattern., default: mine}
diagnose:
  - {id: there, files: {paths: [/tmp]}}
  - id: log
    log_scan:
      files: [/var/log/x]
      ignore_case: true
      signatures: {dry: 'capacitor .{0,9}dry', hot: !raw 'plasma (?:leak|fire)', own: '{{ inputs.own }}', any: '.'}
"""


def test_signs_of_a_step_are_symptoms():
    """Those that are an input's or match any line are left out. Mutants: each of them kept; case that counts."""
    card = card_of("mine", load_playbook(SIGNS, "mine.yaml", discover()), discover())
    assert [(symptom.kind.value, symptom.written) for symptom in card.symptoms] == [
        ("text", "the flux capacitor is dry"),
        ("sign", "(?i)capacitor .{0,9}dry"),
        ("sign", "(?i)plasma (?:leak|fire)"),
    ]
    assert named("PLASMA FIRE on deck", (card,)) == ["mine"]


def test_some_signs_of_a_step_are_symptoms_by_their_names():
    text = SIGNS.replace("signs: log", "signs: log, of: [hot]")
    card = card_of("mine", load_playbook(text, "mine.yaml", discover()), discover())
    assert [symptom.written for symptom in card.symptoms[1:]] == ["(?i)plasma (?:leak|fire)"]


@every_row(
    ("written", "said"),
    [
        ("lgo", "39: symptom: no step 'lgo' of diagnose has signs of a fault (did you mean log?)"),
        ("there", "39: symptom: no step 'there' of diagnose has signs of a fault (there are: log)"),
        ("log, of: [hto]", "51: symptom: the step 'log' has no sign 'hto' (did you mean hot?)"),
        ("log, of: [own]", "51: symptom: the step 'log' has no sign 'own' (there are: dry, hot)"),
    ],
)
def test_a_step_without_signs_is_a_mistake(written, said):
    with pytest.raises(ConfigError) as raised:
        load_playbook(SIGNS.replace("signs: log", f"signs: {written}"), "mine.yaml", discover())
    (problem,) = raised.value.problems
    assert str(problem) == f"mine.yaml:3:{said}"


@every_row(
    ("playbook", "text"),
    [
        (
            "gpu-health",
            "Nov 27 10:00:00 node7 kernel: nvidia 0000:07:00.0: AER: can't recover (no error_detected callback)",
        ),
        ("gpu-health", "[   12.345678] NVRM: GPU 0000:01:00.0 is already bound to NovaCore."),
        ("gpu-health", "[81.2] EDAC MC1: 1 UE memory read error on CPU_SrcID#0_MC#1_Chan#0_DIMM#0"),
        ("gpu-health", "NVRM: RmInitAdapter failed! (0x62:0x40:2477)"),
        ("gpu-lost", "[9.1] NVRM: rm_init_adapter: GPU state: NV_ERR_GPU_IS_LOST"),
        (
            "nfs-hang",
            "Lustre: scratch-OST0007-osc-ffff8d: Connection to scratch-OST0007 (at 192.0.2.9@o2ib) was lost; in progress operations",
        ),
        ("disk-slow", "XFS (nvme1n1p1): Metadata corruption detected at xfs_inode_buf_verify+0x14d"),
        ("host-oom", "node7 systemd-oomd[712]: Killed /user.slice/job.scope due to memory pressure"),
    ],
)
def test_a_message_of_the_kernel_leads_to_the_playbook_that_reads_it(playbook, text):
    assert named(text)[:1] == [playbook], named(text)


def test_only_what_the_program_brings_is_read_unchecked(here, monkeypatch):
    """Its own playbooks are known to be good. Mutants: ``checked`` for neither, or for both."""
    checked = []
    monkeypatch.setattr(checks, "check", lambda book, *_: checked.append(book.name) or [])
    monkeypatch.setenv("XDG_CACHE_HOME", str(here / "cache"))
    assert len(playbook_cards()) > 40
    assert checked == ["mine"]


@every_row(
    ("text", "words"),
    [
        ("{trace}\nTraining completed.", "No playbook is needed"),
        ("Training completed.\n{trace}", "a traceback follows (line 2)"),
    ],
)
def test_what_follows_the_end_of_a_job_is_not_passed_over(text, words):
    """Mutants: ``after`` of a traceback before the end; without it."""
    trace = "Traceback (most recent call last):\nFileNotFoundError: no such file"
    answer = playbooks_for([text.format(trace=trace)], "", "text", BytesIO)
    assert answer.exit_code == 1
    assert words in answer.text


def test_a_sign_counts_less_than_what_the_author_wrote():
    signs = tuple(Symptom(written=text, kind=SymptomKind.SIGN) for text in ("alpha beta", "gamma"))
    assert named("alpha beta gamma", (PlaybookCard(name="a", symptoms=signs), toy("b", "gamma"))) == ["b", "a"]


LOGS = Path(__file__).parents[1] / "data" / "logs"
ENDED = ("end-sibling-*", "job-end-megatron*", "job-noise-after*", "job-validation-after*")


def logs(*names: str) -> list[tuple[str, str]]:
    paths = (path for name in names for path in sorted(LOGS.glob(f"{name}.yaml")))
    return [(path.stem, yaml.safe_load(path.read_text())["says"]) for path in paths]


LEADS_NOWHERE = logs(*ENDED, "job-end-*", "job-preempted-*")


@every_row(("name", "text"), logs(*ENDED))
def test_a_training_that_ended_by_itself_leads_nowhere(name, text):
    assert named(text) == []


@every_row(
    ("name", "text"),
    [row for row in logs("job-*", "killed-sibling-*", "first-sibling-*") if row not in LEADS_NOWHERE],
)
def test_a_training_that_failed_leads_to_a_playbook(name, text):
    assert named(text) != []


@every_row(
    ("text", "wanted"),
    [
        ('Traceback (most recent call last):\n  File "train.py", line 3\nValueError: no', ["training-crash"]),
        ('Traceback (most recent call last):\n  File "manage.py", line 3\nValueError: no', []),
        ("srun: error: node-3: task 2: Exited with exit code 1", ["training-crash"]),
        ("npm ERR! exit code 1", []),
    ],
)
def test_an_unknown_failure_of_a_job_leads_to_training_crash(text, wanted):
    assert named(text) == wanted


def test_a_match_over_lines_has_the_number_of_its_first_line():
    text = 'fine\nTraceback (most recent call last):\n  File "train.py", line 3\nValueError: no'
    (found,) = SymptomSearch(text).found_in(books())
    assert found.matches[0].line == 2


def test_a_trace_counts_where_nothing_else_is_found():
    trace = Symptom(written="^Traceback", kind=SymptomKind.TRACE)
    last = PlaybookCard(name="a", symptoms=(trace,))
    assert named("Traceback (most recent call last):\nalpha", (last, toy("b", "alpha"))) == ["b"]
    assert named("Traceback (most recent call last):\nbeta", (last, toy("b", "alpha"))) == ["a"]


def about(name: str, written: str) -> PlaybookCard:
    return PlaybookCard(name=name, symptoms=(Symptom(written=written, kind=SymptomKind.TOPIC),))


@every_row(
    ("text", "wanted"),
    [
        ("MIG is odd", ["a"]),
        ("MIG is odd\nalpha", ["b"]),
        ("Traceback: MIG is odd", ["a"]),
        ("Traceback", ["c"]),
        ("MIG is odd" + "\n" * MAX_LINES_OF_A_MESSAGE, ["a"]),
        ("MIG is odd" + "\nx" * MAX_LINES_OF_A_MESSAGE, []),
        ("MIG is odd\ndone", []),
        ("done\nMIG is odd", []),
    ],
)
def test_the_subject_of_a_short_text_counts_where_no_error_is_known(text, wanted):
    kinds = {"Traceback": SymptomKind.TRACE, "done": SymptomKind.END}
    last = PlaybookCard(name="c", symptoms=tuple(Symptom(written=word, kind=kind) for word, kind in kinds.items()))
    assert named(text.rstrip("\n"), (about("a", r"\bMIG\b"), toy("b", "alpha"), last)) == wanted


@every_row(("playbook", "text"), [(case["playbook"], case["text"]) for case in CASES["topics"]])
def test_a_text_of_unknown_words_leads_to_the_playbook_of_its_subject(playbook, text):
    found = SymptomSearch(text).found_in(books())
    assert [each.playbook.name for each in found][:1] == [playbook]
    assert found[0].matches[0].symptom.kind is SymptomKind.TOPIC


def test_the_answer_says_that_only_the_subject_is_known(monkeypatch):
    monkeypatch.setattr("runbook.commands.find.playbook_cards", lambda: (about("a", r"\bMIG\b"),))
    answer = playbooks_for(("MIG", "is", "odd"), "", "text", lambda: None)
    assert "a  MIG (its subject; the error itself is not known)" in answer.text


@every_row(
    ("lines", "wanted"),
    [
        ("alpha\nsign\nTraceback\ndone", []),
        ("done\nsign\nTraceback", []),
        ("done\nalpha", ["b"]),
        ("done\nalpha\ndone", []),
        ("sign\nTraceback", ["a"]),
    ],
)
def test_a_job_that_ended_by_itself_needs_no_playbook(lines, wanted):
    """What the author names counts after the end, signs and traces of the shutdown do not."""
    kinds = {"sign": SymptomKind.SIGN, "Traceback": SymptomKind.TRACE, "done": SymptomKind.END}
    symptoms = tuple(Symptom(written=text, kind=kind) for text, kind in kinds.items())
    assert named(lines, (PlaybookCard(name="a", symptoms=symptoms), toy("b", "alpha"))) == wanted


# -- bounds


def test_a_hostile_pattern_ends_and_is_named():
    hostile, honest = toy("hostile", patterns=(r"(a|aa)+$",)), toy("honest", "the end")
    began = time.process_time()
    search = SymptomSearch("a" * 5000 + "b\nthe end")
    found = search.found_in([hostile, honest])
    assert [each.playbook.name for each in found] == ["honest"]
    assert list(search.slow) == list(hostile.symptoms)
    assert time.process_time() - began < 30


def test_a_log_of_megabytes_is_searched_with_every_symptom():
    log = "\n".join(
        f"2026-02-18T10:28:25Z [rank{n % 8}]: INFO step {n} loss=0.{n} tokens={n * 7}" for n in range(60000)
    )
    assert len(log) > 3 * 1024 * 1024
    assert named(f"{BUSY}\n{log}") == ["zombie-gpu"]
    assert named(log) == []


def test_a_line_longer_than_a_piece_is_searched_too():
    (found,) = SymptomSearch("one\n" + "x " * 200_000 + "GPU is lost\nend").found_in([toy("a", "GPU is lost")])
    assert found.matches[0].line == 2


def test_of_a_larger_file_the_end_is_searched(tmp_path):
    log = tmp_path / "log"
    log.write_text(f"{NOBODY}\n" + "x" * MAX_SEARCHED_BYTES + f"\n{BUSY}\n")
    error = read_error_text([f"@{log}"], "", lambda: pytest.fail("stdin"))
    assert error.before == 2
    assert len(error.text) <= MAX_SEARCHED_BYTES
    assert NOBODY not in error.text
    assert BUSY in error.text


def test_the_number_of_a_line_is_that_of_the_whole_file(tmp_path):
    """Of what is not searched, the lines are counted; a progress bar is one line, as is a pasted key many.

    Mutants: lines counted in pieces that are left out only, or in the last one only; ``splitlines``; a mask of one line.
    """
    key = f"-----BEGIN PRIVATE KEY-----\n{'c2VjcmV0' * 8}\n-----END PRIVATE KEY-----\n"
    log = tmp_path / "log"
    bar = "\r".join(f"{n}%" for n in range(100))
    log.write_text("nothing at all\n" * 900_000 + f"{bar}\n{key}a\x0cb\u2028c\r\n{BUSY}\r\nend\n", newline="")
    number = log.read_bytes()[: log.read_bytes().index(b"CUDA-capable")].count(b"\n") + 1
    for error in (
        read_error_text([], str(log), lambda: pytest.fail("stdin")),
        read_error_text(["-"], "", lambda: BytesIO(log.read_bytes())),
    ):
        assert error.before
        assert "c2VjcmV0" not in error.text
        (found,) = SymptomSearch(error.text, before=error.before).found_in(books())
        assert (found.playbook.name, found.matches[0].line) == ("zombie-gpu", number) == ("zombie-gpu", 900_006)


def test_a_bar_that_overwrites_itself_has_its_own_beginnings():
    (found,) = SymptomSearch("1%\r2%\rGPU lost\r\nend").found_in([toy("a", patterns=("^GPU lost$",))])
    assert (found.matches[0].text, found.matches[0].line) == ("GPU lost", 1)


def test_a_key_that_the_cut_has_parted_is_not_kept(tmp_path):
    log = tmp_path / "log"
    key = "c2VjcmV0\n" * 100
    log.write_text(
        f"-----BEGIN PRIVATE KEY-----\n{key}-----END PRIVATE KEY-----\n".ljust(MAX_SEARCHED_BYTES + 100, "\n")
    )
    assert "c2VjcmV0" not in read_error_text([], str(log), lambda: pytest.fail("stdin")).text


def test_colours_do_not_part_a_text():
    error = read_error_text(["\x1b[31mGPU is\x1b[0m lost"], "", lambda: pytest.fail("stdin"))
    assert error.text == "GPU is lost"


# -- the command


def test_it_names_what_matched_what_it_is_for_and_the_line_to_type(here):
    said = runbook("find", BUSY)
    assert (said.code, said.err) == (0, "")
    assert said.out.splitlines()[:3] == [
        "zombie-gpu  CUDA-capable device(s) is/are busy or unavailable",
        "    Free GPUs that a crashed or restarted job still holds, and spare the ones at work.",
        "    runbook run zombie-gpu --hosts HOSTS --dry-run",
    ]


def test_nothing_found_says_what_to_do_and_exits_with_1(here):
    said = runbook("find", NOBODY)
    assert said.code == 1
    assert "`runbook list`" in said.out
    assert "borrow" not in said.out
    assert runbook("find", NOBODY, "--output", "json").document["playbooks"] == []


def test_it_finds_your_own_playbooks_and_names_at_most_five(here):
    for number in range(6):
        text = MINE.replace("name: mine", f"name: mine-{number}")
        (here / "playbooks" / f"mine-{number}.yaml").write_text(text)
    (here / "playbooks" / "broken.yaml").write_text("name: broken\nabout: B.\nsymptom: ['']\n")
    said = runbook("find", "The", "Flux", "capacitor is  dry", "--output", "json")
    assert said.code == 0
    assert [each["playbook"] for each in said.document["playbooks"]] == ["mine", *(f"mine-{n}" for n in range(4))]
    assert said.document["playbooks"][0]["run"] == "runbook run mine --hosts HOSTS --dry-run"
    (match,) = said.document["playbooks"][0]["matches"]
    assert match == {
        "symptom": "the flux capacitor is dry",
        "kind": "text",
        "text": "The Flux capacitor is  dry",
        "line": 1,
    }
    assert said.document["left_out"] == [
        {"playbook": "broken", "why": "it cannot be used: 1 mistake (runbook check broken)"}
    ]


def test_a_needed_input_stands_in_the_line_to_type(here):
    needs = "inputs:\n  speed: {about: How fast., required: true}\n"
    (here / "playbooks" / "mine.yaml").write_text(MINE + needs)
    assert "runbook run mine --hosts HOSTS -e speed=SPEED --dry-run" in runbook("find", "flux=1").out


def test_a_secret_is_never_echoed(here):
    for output in ("console", "json"):
        said = runbook("find", "flux=on password=hunter2hunter2 token: hf_abcdefghijklmnopqrstuvwx", "--output", output)
        assert said.code == 0
        assert "flux=on" in said.out
        assert "hunter2" not in said.out + said.err
        assert "hf_abc" not in said.out + said.err


def test_a_file_and_standard_input_are_read(here):
    (here / "train.log").write_text(f"fine\n{BUSY}\n")
    for words in (("@train.log",), ("--file", "train.log")):
        said = runbook("find", *words)
        assert said.code == 0
        assert said.out.startswith("zombie-gpu  line 2: CUDA-capable")
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        (*PROGRAM, "find", "-"), input=BUSY.encode(), capture_output=True, env={**os.environ, "PYTHONPATH": root}
    )
    assert (done.returncode, done.stdout[:10]) == (0, b"zombie-gpu")


@every_row(
    ("words", "said"),
    [
        ((), "give an error text, in one way"),
        (("text", "--file", "x"), "give an error text, in one way"),
        (("@nothing-there",), "cannot read nothing-there: No such file or directory"),
        (("--file", "/dev"), "cannot read /dev: it is a directory"),
        (("--file", "/dev/zero"), "cannot read /dev/zero: it is not a regular file"),
    ],
)
def test_a_mistake_on_the_command_line_exits_with_2(words, said):
    answer = runbook("find", *words)
    assert answer.code == 2
    assert said in answer.err


def test_the_shell_completes_the_command():
    said = runbook(_RUNBOOK_COMPLETE="bash_complete", COMP_WORDS="runbook fin", COMP_CWORD="1")
    assert json.dumps(said.out.splitlines()) == '["plain,find"]'
