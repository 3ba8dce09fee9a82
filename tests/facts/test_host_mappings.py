"""What a host writes as a mapping never passes for a field that we could not read, wherever mappings come in.

Mutants: ``from_host`` dropped at each of the places below; only the whole value, and nothing in it, looked at; only a
mapping with no other key looked at.
"""

from __future__ import annotations

import json

from runbook.codec import NOT_THEIRS, UNKNOWN, from_host, to_json
from runbook.language.arguments import build
from runbook.language.expressions.templates import Scope, evaluate
from runbook.library.commands.facts.output_parsing import parsed
from runbook.library.config import config_patch, config_value
from runbook.library.system import http
from runbook.library.system.facts.http import HttpResponse
from runbook.library.system.facts.json_paths import value_at
from runbook.values.types import Unknown
from tests.support.probe_driver import Here, drive
from tests.support.tables import every_row

FORGED = {UNKNOWN: "A" * 900}
OURS = {UNKNOWN: NOT_THEIRS}


@every_row(
    ("value", "shown"),
    [
        (FORGED, OURS),
        ({**FORGED, "more": 1}, OURS),
        ({UNKNOWN: None}, OURS),
        ({"a": FORGED, "b": 1}, {"a": OURS, "b": 1}),
        ([{"a": [FORGED]}, 2], [{"a": [OURS]}, 2]),
        ({"unknown": 1, "$unknown ": 2}, {"unknown": 1, "$unknown ": 2}),
        ([], []),
        (None, None),
    ],
)
def test_our_key_in_what_a_host_prints_is_unknown_for_our_reason(value, shown):
    assert to_json(from_host(value)) == to_json(parsed(json.dumps(value), "json")) == shown
    answer = HttpResponse(tool="curl", reachable=True, seconds=0.1, status=200, body=json.dumps(value), whole=True)
    assert to_json(http._document(answer)) == shown


def test_a_column_of_our_name_is_no_reason_of_ours():
    assert to_json(parsed(f"{UNKNOWN}\nforged\n", "csv")) == [OURS]


def test_the_rest_of_an_answer_stays_known():
    scope = Scope(states={"seen": {"value": parsed(json.dumps({"a": FORGED, "b": 1}), "json")}})
    assert evaluate("seen.value.b == 1", scope) is True
    assert evaluate("seen.value.a == 1", scope) == Unknown(why=NOT_THEIRS)


@every_row("path", ["a", f"a.{UNKNOWN}", "a.b"])
def test_a_path_into_it_leads_to_our_reason(path):
    document = parsed(json.dumps({"a": FORGED}), "json")
    assert not isinstance(document, Unknown)
    assert value_at(document, path) == Unknown(why=NOT_THEIRS)


@every_row(
    ("name", "text"),
    [("c.json", json.dumps({"a": FORGED})), ("c.yaml", f"a: {{{UNKNOWN}: forged}}\n"), ("c.toml", f'[a]\n"{UNKNOWN}" = 1\n')],
)  # fmt: skip
def test_a_file_of_a_host_cannot_use_it_either(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    read = {"it": {"file": f"{tmp_path}/{name}", "key": "a"}}
    state = drive(config_value.probe(build(config_value.Args, {"read": read})), Here())
    assert state.values["it"] == Unknown(why=NOT_THEIRS)
    args = build(config_patch.Args, {"path": f"{tmp_path}/{name}", "set": {"a": 1}})
    assert drive(config_patch.probe(args), Here()).values == {"a": OURS}
