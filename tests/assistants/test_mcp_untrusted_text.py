"""Texts of hostile hosts come out of ``runbook mcp`` as data: marked, bounded, and without a sign that anything heeds."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from runbook.commands.mcp.answers import MAX_ANSWER, MAX_ITEMS, MAX_TEXT, Bounds, answer, answer_text
from tests.support.mcp_client import conversation, value
from tests.support.tables import every_row

DATA = Path(__file__).parents[1] / "data" / "hostile_texts.yaml"


def raw(entry: dict) -> bytes:
    if "hex" in entry:
        return bytes.fromhex(entry["hex"])
    return (entry["text"] * entry.get("times", 1)).encode("utf-8", "surrogatepass")


TEXTS = {name: raw(entry) for name, entry in yaml.safe_load(DATA.read_text()).items()}


def strings(tree: object, marked: bool = False) -> Iterator[tuple[str, bool]]:
    """Every text of an answer, and whether it stands under ``untrusted_data``."""
    match tree:
        case dict():
            for key, each in tree.items():
                yield key, marked
                yield from strings(each, marked or key == "untrusted_data")
        case list():
            for each in tree:
                yield from strings(each, marked)
        case str():
            yield tree, marked


def heeded(text: str) -> list[str]:
    """The characters of *text* that a terminal, a browser or a reader would follow or not see."""
    return [
        sign for sign in text if sign not in "\n\t" and unicodedata.category(sign) in ("Cc", "Cf", "Cs", "Zl", "Zp")
    ]


def test_there_are_forty_texts_and_some_have_what_is_hidden():
    assert len(TEXTS) >= 40
    assert sum(bool(heeded(text.decode(errors="replace"))) for text in TEXTS.values()) >= 7


@every_row("name", list(TEXTS))
def test_a_text_becomes_a_value_that_nothing_heeds(name):
    """Mutants: answers.py ``_text`` without ``printable``, or without its cut; ``answer_text`` without its escapes."""
    text = TEXTS[name].decode("utf-8", "replace")
    bounds = Bounds()
    made = answer(bounds, {"hosts": [bounds.data("host here", {"say": text, text[:50]: [text]})]})
    (host,) = made["hosts"]
    said = host["untrusted_data"]["say"]
    assert not heeded(said)
    assert len(said) <= MAX_TEXT + len("… [cut here]")
    assert bool(made["cut"]) is (len(text) > MAX_TEXT)
    written = answer_text(made)
    assert written.isascii()
    assert not re.search(r"[<>&`\x00-\x09\x0b-\x1f\x7f]", written)
    assert json.loads(written) == made
    assert set(made) == {"note", "hosts", "cut"}


def test_an_answer_has_an_end():
    """Mutants: answers.py without MAX_ITEMS, MAX_ANSWER or MAX_DEPTH."""
    bounds = Bounds()
    deep: object = "x"
    for _ in range(200):
        deep = [deep]
    value = bounds.value({"many": ["y"] * (MAX_ITEMS + 7), "deep": deep, "big": ["z" * MAX_TEXT] * 200}, "all")
    assert len(value["many"]) == MAX_ITEMS
    assert len(json.dumps(value)) < 1.1 * MAX_ANSWER
    cuts = "\n".join(bounds.cuts())
    assert f"all.many: 7 of {MAX_ITEMS + 7} entries are left out" in cuts
    assert "nested deeper than" in cuts
    assert "more places" in cuts


BOOK = """\
name: hostile
about: Read what a host says.
diagnose:
%s
findings:
%s
remediate:
  - {id: write, file: {path: "%s", content: "x\\n"}}
"""


@pytest.fixture
def hostile(folder) -> Path:
    probes, findings = [], []
    (folder / "texts").mkdir()
    for name, text in TEXTS.items():
        (folder / "texts" / name).write_bytes(b"MARK-" + name.encode() + b" " + text)
        probes.append(f"  - {{id: {name}, command: {{argv: [cat, {folder / 'texts' / name}]}}}}")
        say = f'say: "{{{{ {name}.stdout }}}}"'
        findings.append(
            f'  - {{id: f_{name}, when: "{name}.exit_code == 0", severity: error, {say}, advise: ["{{{{ {name}.stdout }}}}"]}}'
        )
    book = BOOK % ("\n".join(probes), "\n".join(findings), folder / "target" / "conf")
    (folder / "playbooks" / "hostile.yaml").write_text(book)
    return folder


@pytest.mark.slow
def test_what_a_hostile_host_prints_comes_out_as_data_of_that_host(hostile):
    """Mutants: proposals.py and recorded.py that give a text of a host without ``bounds.data``."""

    async def talk(session):
        results = [
            await session.call_tool("plan", {"playbook": "hostile", "hosts": "here"}),
            await session.call_tool("diagnose", {"hosts": "here"}),
        ]
        run = value(results[0])["run"]
        results.append(await session.call_tool("show", {"run": run}))
        results.append(await session.call_tool("show", {"run": run, "host": "here"}))
        results.append(await session.call_tool("find", {"error": "MARK-find " + TEXTS["html"].decode()}))
        read = [await session.read_resource(f"runbook://runs/{run}{it}") for it in ("", "/findings", "/hosts/here")]
        return results, read

    results, read = conversation(hostile, talk)
    texts = [result.content[0].text for result in results] + [each.contents[0].text for each in read]
    trees = [value(result) for result in results]
    assert [json.loads(text) for text in texts[: len(trees)]] == trees
    trees += [json.loads(text) for text in texts[len(trees) :]]
    assert all(text.isascii() and not set("<>&`") & set(text) for text in texts)
    for tree in trees:
        for text, marked in strings(tree):
            assert not heeded(text)
            assert marked or "MARK-" not in text
    plan, diagnosis, record, evidence, found, *_ = trees
    assert plan["text"]["from"] == "hosts here"
    assert diagnosis["hosts"][0]["from"] == evidence["from"] == record["hosts"][0]["from"] == "host here"
    assert plan["cut"]
    assert found["found"]["from"] == "the text that was searched"
    findings = trees[6]["hosts"][0]["untrusted_data"]
    assert {f"f_{name}" for name in TEXTS} == {each["id"] for each in findings}
    assert not (hostile / "target" / "conf").exists()


SECRET = "ghp_" + "a1B2c3D4e5" * 3 + "F6g7H8"


@pytest.mark.slow
def test_a_secret_that_a_host_prints_is_masked(folder):
    """Mutants: a plan whose text is made from the results before they were masked."""
    (folder / "texts").mkdir()
    (folder / "texts" / "log").write_text(f"token={SECRET}\n")
    probe = f"  - {{id: log, command: {{argv: [cat, {folder / 'texts' / 'log'}]}}}}"
    finding = '  - {id: said, when: "log.exit_code == 0", severity: error, say: "{{ log.stdout }}"}'
    (folder / "playbooks" / "hostile.yaml").write_text(BOOK % (probe, finding, folder / "target" / "conf"))

    async def talk(session):
        plan = await session.call_tool("plan", {"playbook": "hostile", "hosts": "here"})
        return plan, await session.call_tool("show", {"run": value(plan)["run"], "host": "here"})

    for result in conversation(folder, talk):
        assert SECRET not in result.content[0].text
        assert "***" in result.content[0].text
