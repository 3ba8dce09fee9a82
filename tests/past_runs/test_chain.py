"""A chain of lines: whatever becomes of one of them is found."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from runbook.records.chain import START, links, sealed

TEXTS = st.lists(st.text(max_size=20), min_size=2, max_size=8)


def chain(texts: list[str]) -> list[bytes]:
    lines, before = [], START
    for number, text in enumerate(texts, 1):
        line, before = sealed(json.dumps({"n": number, "event": text}), before)
        lines.append(line.encode() + b"\n")
    return lines


def faults(lines: list[bytes]) -> list[str]:
    return [it.fault for it in links(lines) if it.fault]


@given(TEXTS)
def test_what_was_written_has_no_fault_and_comes_back(texts):
    assert faults(chain(texts)) == []
    assert [it.value["event"] for it in links(chain(texts))] == texts


@given(TEXTS, st.data())
def test_a_line_that_was_edited_moved_doubled_or_removed_is_found(texts, data):
    """Mutants: ``sealed`` without the digest before; ``_link`` that does not compare numbers or digests."""
    lines = chain(texts)
    at = data.draw(st.integers(0, len(lines) - 2))  # the last line is the ledger's concern
    changed = list(lines)
    match data.draw(st.sampled_from(["edited", "removed", "doubled", "moved", "cut", "unsealed"])):
        case "edited":
            value = json.loads(lines[at])
            value["event"] = f"not {value['event']}"
            changed[at] = json.dumps(value, separators=(", ", ": ")).encode() + b"\n"
        case "removed":
            del changed[at]
        case "doubled":
            changed.insert(at, lines[at])
        case "moved":
            changed[at], changed[at + 1] = changed[at + 1], changed[at]
        case "cut":
            changed[at] = lines[at][: len(lines[at]) // 2] + b"\n"
        case "unsealed":
            changed[at] = json.dumps({"n": at + 1, "event": texts[at]}).encode() + b"\n"
    assert faults(changed)


@given(TEXTS, st.data())
def test_a_digest_made_anew_does_not_fit_the_line_behind_it(texts, data):
    """Mutant: ``links`` that goes on with the digest that it computed, not the one that stands there."""
    lines = chain(texts)
    at = data.draw(st.integers(0, len(lines) - 2))
    before = json.loads(lines[at - 1])["sha"] if at else START
    forged, _ = sealed(json.dumps({"n": at + 1, "event": f"not {texts[at]}"}), before)
    lines[at] = forged.encode() + b"\n"
    assert faults(lines)


def test_a_line_without_its_end_is_left_out():
    lines = chain(["a", "b", "c"])
    assert [it.value["event"] for it in links([*lines[:2], lines[2][:-20]])] == ["a", "b"]
