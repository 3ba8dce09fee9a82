"""Secrets are hidden wherever, and in whatever form, they turn up."""

from __future__ import annotations

import base64
import html
import json
import shlex
import time
from dataclasses import replace
from itertools import pairwise
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runbook.codec import to_json
from runbook.secrets.config_lines import masked_config, without_secrets
from runbook.secrets.detection import masked_argv, secret_spans
from runbook.secrets.masking import MASK, OWN_WORDS, masked, masking
from runbook.values.command import Command, Effect
from runbook.values.plan import Change, PlannedStep, Presence, Risk
from runbook.values.playbook import Severity
from runbook.values.result import HostPlan, SentCommand, Status, Verdict

SECRET = "s3cr3t /pa'ss\"wörd+long"
MANY_WAYS = {
    "plain": SECRET,
    "in a shell": shlex.quote(SECRET),
    "in JSON": json.dumps(SECRET),
    "in a URL": quote(SECRET, safe=""),
    "in base64": base64.b64encode(SECRET.encode()).decode(),
    "in base64 after one byte": base64.b64encode(b"u" + SECRET.encode()).decode(),
    "in base64 after a user": base64.b64encode(b"me:" + SECRET.encode() + b"\n").decode(),
    "in base64 after two bytes": base64.b64encode(b"u:" + SECRET.encode() + b"!").decode(),
    "in base64 between": base64.b64encode(b"me, " + SECRET.encode() + b"!").decode(),
    "in hexadecimal": SECRET.encode().hex(),
}


@pytest.mark.parametrize("way", MANY_WAYS)
def test_a_secret_is_hidden_in_every_form(way):
    """Mutants: encoded_forms.py ``forms_of`` without one of them; ``_within_base64`` without one of its three cuts."""
    shown = masking((SECRET,))(f"curl -H {MANY_WAYS[way]} host")
    assert MASK in shown
    for length in (10,):
        for at in range(len(MANY_WAYS[way]) - length):
            assert MANY_WAYS[way][at : at + length] not in shown


@pytest.mark.parametrize("shown_of_it", range(6, len(SECRET)))
@pytest.mark.parametrize("after", ["", "…", "… and more", "..."])
def test_what_a_cut_left_of_a_secret_is_hidden_too(shown_of_it, after):
    """Mutants: masking.py ``_uncut`` without its first ``if``; ``_CUT`` without one of its signs."""
    told = masking((SECRET,))(f"pid 7 python --token {SECRET[:shown_of_it]}{after}")
    assert told == f"pid 7 python --token {MASK}{after}"


@pytest.mark.parametrize("shown_of_it", range(6, len(SECRET)))
@pytest.mark.parametrize("before", ["", "a line …"])
def test_the_end_of_a_secret_after_a_cut_is_hidden_too(shown_of_it, before):
    """Mutants: masking.py ``_uncut`` without its second ``if``."""
    told = masking((SECRET,))(f"{before}{SECRET[-shown_of_it:]} --rank 0")
    assert told == f"{before}{MASK} --rank 0"


@given(st.text(max_size=40), st.text(max_size=40))
def test_whatever_stands_around_a_secret_it_is_hidden(before, after):
    assert SECRET not in masking((SECRET,))(before + SECRET + after)


@given(st.text(alphabet="abc…. ", max_size=60))
def test_nothing_else_is_hidden(text):
    assert masking(("zzzzzzzz-zzzz", "abc"))(text) == text
    assert masking(())(text) == text


def test_a_secret_is_hidden_however_deep_it_lies_in_a_value():
    """Mutants: masking.py ``_walked`` without one of its branches; ``_mapping`` with its keys as they are."""
    sent = SentCommand(line=f"login {SECRET}", effect="read", stdout=f"ok {SECRET}")
    hidden = masked({"a": [(sent,)], SECRET: 1}, masking((SECRET,)))
    assert [*hidden] == ["a", MASK]
    assert hidden["a"][0][0] == SentCommand(line=f"login {MASK}", effect="read", stdout=f"ok {MASK}")


MORE_WAYS = {
    "in capitals": SECRET.upper(),
    "in HTML": html.escape(SECRET),
    "in HTML by Jinja": html.escape(SECRET).replace("&#x27;", "&#39;").replace("&quot;", "&#34;"),
    "in a URL by Jinja": quote(SECRET, safe="/"),
    "in a form": quote_plus(SECRET),
    "in a URL, lower case": quote(SECRET, safe="").lower(),
    "twice in a URL": quote(quote(SECRET, safe=""), safe=""),
    "in JSON by Jinja": json.dumps(SECRET).replace("'", r"\u0027"),
    "in JSON of JSON": json.dumps(json.dumps(SECRET)),
    "in JSON of a shell": json.dumps(shlex.quote(SECRET)),
    "in a shell of a shell": shlex.quote(shlex.quote(SECRET)),
    "in base64 for URLs": base64.urlsafe_b64encode(SECRET.encode()).decode().rstrip("="),
    "in hexadecimal, capitals": SECRET.encode().hex().upper(),
    "in hexadecimal with spaces": SECRET.encode().hex(" "),
    "in hexadecimal with colons": SECRET.encode().hex(":"),
    "in a C string": "".join(f"\\x{byte:02x}" for byte in SECRET.encode()),
    "in Python": repr(SECRET),
    "in JSON as UTF-8": json.dumps(SECRET, ensure_ascii=False),
    "in a shell, with a backslash": SECRET.replace("'", r"'\''"),
    "in JSON by PHP": json.dumps(SECRET).replace("/", r"\/"),
    "in JSON by Jinja, by PHP": json.dumps(SECRET).replace("'", r"\u0027").replace("/", r"\/"),
    "in HTML, decimal": html.escape(SECRET).replace("&#x27;", "&#39;"),
    "in XML": html.escape(SECRET).replace("&#x27;", "&apos;"),
    "in a URL by JavaScript": quote(SECRET, safe="-_.!~*'()"),
}


@pytest.mark.parametrize("way", MORE_WAYS)
def test_a_secret_is_hidden_in_forms_that_filters_and_programs_make(way):
    """Mutants: encoded_forms.py ``forms_of`` or ``_escaped`` without one of them; its pattern without IGNORECASE.

    What ``shlex.quote`` makes, and a URL that keeps ``~`` or nothing, are covered by other forms, too.
    """
    shown = masking((SECRET,))(f"it is {MORE_WAYS[way]} here")
    assert MASK in shown
    for at in range(len(MORE_WAYS[way]) - 10):
        assert MORE_WAYS[way][at : at + 10] not in shown


SIGNS = "a>>?:b/c??>~~?&>>k?'"
"""A secret that base64 writes with its two signs, ``+`` and ``/``, whatever stands before."""


def in_base64(before: bytes = b"", after: bytes = b"", altchars: bytes = b"+/") -> str:
    return base64.b64encode(before + SIGNS.encode() + after, altchars).decode().rstrip("=")


SIGNS_WRITTEN = {
    "in base64": in_base64(),
    "in base64 for URLs": in_base64(altchars=b"-_"),
    "in base64 in a URL": quote(in_base64(), safe=""),
    **{f"in base64 after {number}": in_base64(b"u:x"[:number], b"!!!") for number in range(4)},
    **{f"in base64 for URLs after {number}": in_base64(b"u:x"[:number], b"!!!", b"-_") for number in range(4)},
    "in the text of HTML": html.escape(SIGNS, quote=False),
    "in a path of a URL": quote(SIGNS, safe="/:"),
}


@pytest.mark.parametrize("way", SIGNS_WRITTEN)
def test_a_secret_of_signs_is_hidden_in_every_form(way):
    """Mutants: encoded_forms.py ``forms_of`` without base64, without that for URLs, or without either within a URL;
    ``_within_base64`` without the whole, or without one of its three cuts; ``_escaped`` without the text of HTML.
    """
    written = SIGNS_WRITTEN[way]
    shown = masking((SIGNS,))(f"it is {written} here")
    assert MASK in shown
    assert not any(written[at : at + 10] in shown for at in range(len(written) - 9))
    assert " after " in way or shown == f"it is {MASK} here"


@pytest.mark.parametrize("secret", ["abc", "root", "Admin", "healthy", "failed", "critical", "Enabled"])
def test_a_secret_that_is_an_ordinary_word_blanks_no_text(secret):
    """Mutants: masking.py without SHORTEST, without ORDINARY, or without OWN_WORDS."""
    text = f"pid 7 ({secret}) {secret}"
    assert masking((secret,))(text) == text


def test_a_word_of_a_report_is_none_that_a_secret_blanks():
    """Every verdict, status, severity and presence, which the package of secrets cannot know by itself."""
    words = {form for each in (*Verdict, *Status, *Severity, *Presence) for form in (each, each.replace("_", " "))}
    assert words == OWN_WORDS


def test_a_short_secret_of_letters_is_hidden_as_a_word_only():
    """Mutants: masking.py with every form in ``whole``."""
    mask = masking(("pass", "4711"))
    assert mask("bypassed, pid 14711; pass, 4711") == "bypassed, pid 14711; ***, ***"


def test_both_sides_of_what_a_lane_has_left_out_are_cuts():
    """Mutants: masking.py ``_CUT`` without its first form."""
    text = f"x {SECRET[:9]}\n[... 77 bytes left out ...]\n{SECRET[-9:]} y"
    assert masking((SECRET,))(text) == f"x {MASK}\n[... 77 bytes left out ...]\n{MASK} y"


@given(
    st.lists(st.sampled_from(["--token", "curl", "-u", "a:", "'", '"', "key=", " ", "{", "x" * 70, "://", "@", "\n"]))
)
def test_no_text_breaks_what_looks_for_secrets(parts):
    text = "".join(parts)
    spans = secret_spans(text)
    assert all(0 <= start < end <= len(text) for start, end in spans)
    assert all(one[1] <= other[0] for one, other in pairwise(spans))
    masked_argv(parts)
    assert len(masked_config(text.split("\n"))) == len(text.split("\n"))


UNITS = ("://a:b", "token:", "token=", "key", "curl -u ", "eyJaaaaaaaaaa.", "<token ", "-token ")


@pytest.mark.soak
@pytest.mark.parametrize(("start", "unit"), [*(("", unit) for unit in UNITS), ("? ", "token:"), ("? ", "token=")])
def test_a_hostile_text_costs_no_more_than_its_length(start, unit):
    """Mutants: config_lines.py ``_masked_line`` without *done*, or with the name inspected last."""
    for work in (secret_spans, without_secrets):
        spent = []
        for length in (20_000, 80_000):
            text = start + unit * (length // len(unit))
            began = time.process_time()
            work(text)
            spent.append(time.process_time() - began)
        assert spent[1] < 0.3 + 8 * spent[0]


def test_what_sshpass_starts_is_another_program_whose_port_is_no_password():
    """Mutant: the words after sshpass's password still count as its own."""
    argv = ("sshpass", "-p", "hunter2 x", "ssh", "-p2222", "box")
    assert masked_argv(argv) == ("sshpass", "-p", MASK, "ssh", "-p2222", "box")


SWITCHES = (
    ("systemctl", "--no-ask-password", "--no-pager", "start", "--", "x.service"),
    ("sudo", "ansible-playbook", "--ask-become-pass", "site.yml"),
    ("docker", "login", "--password-stdin", "registry"),
)


@pytest.mark.parametrize("argv", SWITCHES, ids=lambda it: it[0])
def test_what_follows_an_option_without_a_value_is_shown(argv):
    """So that the command of a plan can be typed. Mutants: detection.py without either SWITCH."""
    assert masked_argv(argv) == argv
    assert without_secrets(" ".join(argv)) == " ".join(argv)


def test_words_of_a_command_line_are_hidden_whatever_is_in_them():
    argv = (
        "sudo",
        "mysql",
        "-pX Y",
        "--password",
        "a b",
        "--max-tokens",
        "512",
        "--token-file",
        "/x",
        "--api-key={{ x }}",
    )
    shown = (
        "sudo",
        "mysql",
        "-p***",
        "--password",
        "***",
        "--max-tokens",
        "512",
        "--token-file",
        "/x",
        "--api-key={{ x }}",
    )
    assert masked_argv(argv) == shown


def test_a_command_shows_no_variable_that_is_secret_and_no_file_that_it_is_fed():
    """Mutants: command.py ``__str__`` with the values of its variables; masking.py without ``without_private``."""
    command = Command(
        argv=("start",), effect=Effect.WRITE, stdin="port: 1\nname: c4nary", private=True,
        env=(("DB_PASSWORD", "a 'b"), ("PORT", "80"), ("DATABASE_URL", "pg://u:pw@h/d")),
    )  # fmt: skip
    line = str(replace(command, private=False, stdin=""))
    assert line == "env 'DB_PASSWORD=***' PORT=80 'DATABASE_URL=pg://u:***@h/d' start"
    plan = HostPlan(
        host="h", steps=(PlannedStep(id="s", decision=Change(summary="", commands=(command,), risk=Risk.UNKNOWN)),)
    )
    text = json.dumps(to_json(masked(plan, masking(()))))
    assert "c4nary" not in text
    assert "a 'b" not in text
    assert "(20 characters, not shown)" in text


def test_what_stands_under_a_secret_name_is_hidden_in_every_value():
    """Mutants: masking.py ``_mapping`` without ``_is_hidden``; ``_hidden`` that hides texts only in lists."""
    args = {
        "headers": {"Authorization": {"scheme": "x", "is": ["y", {"z": 1}]}},
        "pass": 3,
        "read": {"token": {"file": "/x"}},
    }
    shown = masked({"look_args": args, "token": {"$unknown": "why"}}, masking(()))
    assert shown["look_args"]["headers"] == {"Authorization": {"scheme": MASK, "is": [MASK, {"z": MASK}]}}
    assert shown["look_args"]["pass"] == 3
    assert shown["look_args"]["read"] == {"token": {"file": "/x"}}
    assert shown["token"] == {"$unknown": "why"}


def test_a_value_with_nothing_to_hide_is_the_value_itself():
    """Mutants: masking.py ``_fields`` that always makes a new one."""
    value = {"a": [(SentCommand(line="uptime", effect="read", stdout="ok"),)]}
    assert masked(value, masking((SECRET,))) is value
