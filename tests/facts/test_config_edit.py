"""Single values change in the text of a file, and nothing else does."""

from __future__ import annotations

import json
import tomllib
from difflib import SequenceMatcher

import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st

from runbook.library.config.facts import DesiredValues, Unparsable, format_of, key_path, key_text, patched
from tests.support.tables import every_row

YAML = """\
# at the top
actor: &actor
  path: ${oc.env:MODEL}   # kept
  prompt: '{{ x }}'
rollout:
    name: "a"  # two spaces
    limits: {low: 1, high: [1, 2]}
    # the end of it

eval:
  <<: *actor
  n: 7
copy: *actor
empty:
text: |
  one

  two
"""

TOML = """\
# at the top
steps = 100  # kept

[model]
name = "m"
extra = { a = 1, "b.c" = 2 }

# about optim
[optim]
lr = 1e-6
x.y = 1

[[stage]]
n = 1

[deep.er]
z = [
  1, # one
  2,
]"""

JSON = """\
{
    "log-driver": "json-file",
    "log-opts": {
        "max-size": "10m"
    },
    "exec": ["a"], "none": null, "no": {}
}
"""

CASES = {
    # name: format, before, what is wanted, the text with so many lines taken out and put in
    "inserted under a mapping, as it is indented": ("yaml", YAML, {"rollout.timeout": 7200}, ["+     timeout: 7200"]),
    "a value replaced, its comment kept": ("yaml", YAML, {"rollout.name": "b c"}, ['-     name: "a"  # two spaces', '+     name: "b c"  # two spaces']),
    "between braces": ("yaml", YAML, {"rollout.limits.mid": True}, ["-     limits: {low: 1, high: [1, 2]}", "+     limits: {low: 1, high: [1, 2], mid: true}"]),
    "a list between brackets": ("yaml", YAML, {"rollout.limits.high": []}, ["-     limits: {low: 1, high: [1, 2]}", "+     limits: {low: 1, high: []}"]),
    "over a merge key": ("yaml", YAML, {"eval.path": "/m"}, ["+   path: /m"]),
    "an alias replaced by a value": ("yaml", "a: &x 1\nb: *x\n", {"b": 2}, ["- b: *x", "+ b: 2"]),
    "under a key without a value": ("yaml", YAML, {"empty": {"a": {"b": "5"}}}, ["+   a:", '+     b: "5"']),
    "in place of a block of text": ("yaml", YAML, {"text": "x: y"}, ["- text: |", "-   one", "- ", "-   two", '+ text: "x: y"']),
    "behind a block of text": ("yaml", YAML, {"last": None}, ["+ last: null"]),
    "what YAML 1.1 and 1.2 read differently is quoted": ("yaml", "a: 1\n", {"a": "on"}, ["- a: 1", '+ a: "on"']),
    "and so is what looks like a number": ("yaml", "a: 1\n", {"a": "7200"}, ["- a: 1", '+ a: "7200"']),
    "a number of YAML 1.2 alone is written so that all read it": ("yaml", "a: 1e-6\n", {"a": 1e-6}, ["- a: 1e-6", "+ a: 1.0e-06"]),
    "single quotes stay": ("yaml", "a: 'x'\n", {"a": "y"}, ["- a: 'x'", "+ a: 'y'"]),
    "a list over lines": ("yaml", "a:  # why\n  # what\n  - 1\n  - 2  # two\nb: 1\n", {"a": [3]}, ["- a:  # why", "-   - 1", "-   - 2  # two", "+ a: [3]  # why"]),
    "a mapping is merged": ("yaml", YAML, {"rollout": {"name": "a", "z.z": 1}}, ["+     z.z: 1"]),
    "an unused anchor stays": ("yaml", "a: &x 1\n", {"a": 2}, ["- a: &x 1", "+ a: &x 2"]),
    "braces over lines": ("yaml", "a: {\n  b: 1,  # c\n  d: 2  # e\n}\n", {"a.f": 3}, ["-   d: 2  # e", "+   d: 2,  # e", "+   f: 3"]),
    "a root key before the first table": ("toml", TOML, {"async_level": 0}, ["+ async_level = 0"]),
    "a number keeps its comment": ("toml", TOML, {"steps": 5}, ["- steps = 100  # kept", "+ steps = 5  # kept"]),
    "a key in its table": ("toml", TOML, {"optim.w": "5"}, ['+ w = "5"']),
    "behind dotted keys": ("toml", TOML, {"optim.x.z": 2.5}, ["+ x.z = 2.5"]),
    "in an inline table": ("toml", TOML, {'model.extra."b.c"': 3}, ['- extra = { a = 1, "b.c" = 2 }', '+ extra = { a = 1, "b.c" = 3 }']),
    "at the end of an inline table": ("toml", TOML, {"model.extra.d": []}, ['- extra = { a = 1, "b.c" = 2 }', '+ extra = { a = 1, "b.c" = 2, d = [] }']),
    "a new table at the end of a file without an end": ("toml", TOML, {"fake": {"n": 8, "in": {"m": 1}}}, ["+ ", "+ [fake]", "+ n = 8", "+ ", "+ [fake.in]", "+ m = 1"]),
    "at the end of a file without an end": ("toml", TOML, {"deep.er.y": 1}, ["+ y = 1"]),
    "a table that only others name": ("toml", TOML, {"deep.x": 1}, ["+ [deep]", "+ x = 1", "+ "]),
    "a table that only an array of tables names": ("toml", "a = 1\n[[b.c]]\nd = 1\n", {"b.x": 1}, ["+ [b]", "+ x = 1", "+ "]),
    "behind what looks like a header or a comment": ("toml", '[t]\na = """\n[u]\n# """ # x\nb = [\n  "]", # [v]\n] # y\n[v]\n', {"t.c": 1}, ["+ c = 1"]),
    "behind dotted keys in blanks": ("toml", "[a]\n  b . 'c=d' = {x.y = [1, {}]} # z\n", {"a.b.n": 1}, ["+   b.n = 1"]),
    "deep in inline tables": ("toml", "a = {b={ c = [ {d = 1} ] , e = 2022-01-01 10:00:00}}\n", {"a.b.f": 1}, ["- a = {b={ c = [ {d = 1} ] , e = 2022-01-01 10:00:00}}", "+ a = {b={ c = [ {d = 1} ] , e = 2022-01-01 10:00:00, f = 1}}"]),
    "a key of a file with nothing but tables": ("toml", "# about t\n[t]\na = 1\n", {"b": "x"}, ['+ b = "x"', "+ "]),
    "members merged, strings stay strings": ("json", JSON, {"log-opts": {"max-size": "100m", "max-file": "5"}}, ['-         "max-size": "10m"', '+         "max-size": "100m",', '+         "max-file": "5"']),
    "a member behind the last": ("json", JSON, {"x": {"y": 1}}, ['-     "exec": ["a"], "none": null, "no": {}', '+     "exec": ["a"], "none": null, "no": {}, "x": {', '+         "y": 1', "+     }"]),
    "in an empty object": ("json", JSON, {"no.a": False}, None),
    "in a null": ("json", JSON, {"none.a": 1}, None),
    "in one line": ("json", '{"a":1}', {"b": [1, "ü"]}, ['- {"a":1}', '+ {"a":1,"b":[1,"ü"]}']),
    "tabs": ("json", '{\n\t"a": 1\n}', {"b": {"c": 2}}, ['- \t"a": 1', '+ \t"a": 1,', '+ \t"b": {', '+ \t\t"c": 2', "+ \t}"]),
}  # fmt: skip


def compared(before: str, after: str) -> list[str]:
    """The lines of both texts, each with `-`, `+` or a blank before it."""
    old, new, lines = before.split("\n"), after.split("\n"), []
    for what, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        lines += [f"  {it}" for it in old[a:b]] if what == "equal" else [f"- {it}" for it in old[a:b]]
        lines += [] if what == "equal" else [f"+ {it}" for it in new[c:d]]
    return lines


def change(before: str, after: str) -> list[str]:
    return [it for it in compared(before, after) if it[0] in "+-"]


@every_row("case", CASES.values(), ids=CASES)
def test_the_text_changes_where_it_must_and_nowhere_else(case):
    form, before, wanted, lines = case
    found = patched(before, form, DesiredValues(set=wanted))
    assert found.conflict == ""
    assert found.text != before
    if lines is not None:
        assert sorted(change(before, found.text)) == sorted(lines)
    again = patched(found.text, form, DesiredValues(set=wanted))
    assert (again.text, again.missing, again.differing, again.conflict) == (found.text, (), (), "")


def test_a_root_key_of_toml_stands_behind_what_is_said_of_the_file_and_before_what_is_said_of_a_table():
    def told(text: str) -> str:
        return patched(text, "toml", DesiredValues(set={"b": 1})).text

    assert told("# the file\n[t]\na = 1\n") == "# the file\nb = 1\n\n[t]\na = 1\n"
    assert told("# the file\n\n# the table\n[t]\n") == "# the file\n\nb = 1\n\n# the table\n[t]\n"
    assert told("a = 1 # last\n# the table\n[t]") == "a = 1 # last\nb = 1\n# the table\n[t]"


def test_a_new_table_of_toml_parts_no_table_from_what_is_said_of_it():
    """Mutants: toml_editor.py ``_new_key`` without ``_above``."""
    made = patched("a = 1\n\n# the table\n[t.u]\n", "toml", DesiredValues(set={"t.b": 1})).text
    assert made == "a = 1\n\n[t]\nb = 1\n\n# the table\n[t.u]\n"


SCATTERED = """\
x.z = 1
d = 2  # of the file

# about one
[[s]]

  [ v ] # between
b={ a=1 }

# about two
[[s]]
c  =  3 # last"""


@every_row(
    ("key", "value", "after"),
    [
        ("v.b.a", 5, SCATTERED.replace("a=1", "a=5")),
        ("d", 5, SCATTERED.replace("d = 2", "d = 5")),
        ("v.n", 5, SCATTERED.replace("b={ a=1 }", "b={ a=1 }\nn = 5")),
        ("x.n", {"m": 5}, f"{SCATTERED}\n\n[x.n]\nm = 5"),
    ],
)
def test_a_table_between_elements_of_an_array_stays_there_with_what_is_said_of_it(key, value, after):
    """What a library that writes all of a file again moves, or takes into another table."""
    assert patched(SCATTERED, "toml", DesiredValues(set={key: value})).text == after


UNSET = {
    "a line": ("yaml", "a:\n  b: 1  # x\n  # about c\n  c: 2\n", "a.b", "a:\n  # about c\n  c: 2\n"),
    "the last of a mapping": ("yaml", "a:  # why\n  b: 1\nc: 2\n", "a.b", "a: {}  # why\nc: 2\n"),
    "between braces": ("yaml", "a: {b: 1, c: 2}\n", "a.b", "a: {c: 2}\n"),
    "last between braces": ("yaml", "a: {b: 1, c: 2}\n", "a.c", "a: {b: 1}\n"),
    "a whole mapping": ("yaml", "a:\n  b: 1\n\nc: 2\n", "a", "\nc: 2\n"),
    "a table's key": ("toml", "[a]\nb = 1 # x\nc = [\n 1,\n]\n", "a.c", "[a]\nb = 1 # x\n"),
    "an inline table's": ("toml", "a = { b = 1, c = 2 }\n", "a.b", "a = { c = 2 }\n"),
    "a member": ("json", '{\n  "a": 1,\n  "b": 2\n}\n', "b", '{\n  "a": 1\n}\n'),
    "the first member": ("json", '{\n  "a": 1,\n  "b": 2\n}\n', "a", '{\n  "b": 2\n}\n'),
    "an only member": ("json", '{"a":1}', "a", "{}"),
}


@every_row("case", UNSET.values(), ids=UNSET)
def test_a_key_is_taken_out(case):
    form, before, key, after = case
    found = patched(before, form, DesiredValues(unset=(key,)))
    assert (found.text, found.surplus, found.conflict) == (after, (key,), "")
    assert patched(after, form, DesiredValues(unset=(key,))).text == after


CONFLICTS = {
    "a scalar in the way": ("yaml", YAML, DesiredValues(set={"rollout.name.x": 1}), 'rollout.name is text ("a"), so there is no'),
    "a mapping in the way": ("yaml", YAML, DesiredValues(set={"rollout": 5}), "rollout is a mapping (its keys: name, limits)"),
    "a scalar where a mapping goes": ("yaml", YAML, DesiredValues(set={"rollout.name": {"x": 1}}), "a mapping is to replace it"),
    "a list in the way": ("yaml", "- a\n", DesiredValues(set={"a": 1}), "the file is a sequence"),
    "an anchor that is used elsewhere": ("yaml", YAML, DesiredValues(set={"actor.path": "x"}), "has the anchor &actor, which is used elsewhere"),
    "into an alias": ("yaml", YAML, DesiredValues(set={"copy.path": "x"}), "copy is the alias *actor"),
    "into what is merged": ("yaml", "a: &a {b: {c: 1}}\nd:\n  <<: *a\n", DesiredValues(set={"d.b.c": 2}), "d.b comes through a merge key"),
    "out of what is merged": ("yaml", YAML, DesiredValues(unset=("eval.path",)), "eval.path comes through a merge key"),
    "a tag": ("yaml", "a: !env X\n", DesiredValues(set={"a": 1}), "has the tag !env"),
    "no parent": ("yaml", YAML, DesiredValues(set={"roll.name": 1}), "there is no roll to put name into; set `parents: true`"),
    "a table in an array": ("toml", TOML, DesiredValues(set={"stage.n": 2}), "stage is a list, so there is no stage.n"),
    "no null in TOML": ("toml", TOML, DesiredValues(set={"steps": None}), "TOML has no null"),
    "a date": ("toml", "d = 2026-01-01\n", DesiredValues(set={"d": "2026-01-02"}), "d is a date"),
    "a table taken out": ("toml", TOML, DesiredValues(unset=("model",)), "model is a table"),
    "dotted keys taken out": ("toml", "a = {b.c = 1}\n", DesiredValues(unset=("a.b",)), "a.b is a table, or not written in one place"),
    "a list in the way of a member": ("json", JSON, DesiredValues(set={"exec.x": 1}), "exec is a list"),
    "text that would get an end": ("yaml", "a: |\n  text", DesiredValues(set={"b": 1}), "b cannot be changed without changing something else"),
    "no number": ("yaml", YAML, DesiredValues(at_least={"actor.path": 5}), "cannot be compared with a number"),
    "a truth is not a number": ("yaml", "a: true\n", DesiredValues(at_least={"a": 0}), "the value is true, which cannot be compared"),
    "a number for some only": ("yaml", "a: 1_000\n", DesiredValues(at_least={"a": 5}), "some readers of YAML take for text"),
}  # fmt: skip


@every_row("case", CONFLICTS.values(), ids=CONFLICTS)
def test_what_would_touch_something_else_is_refused_in_words(case):
    form, before, wanted, words = case
    found = patched(before, form, wanted)
    assert words in found.conflict
    assert found.text == before


UNPARSABLE = {
    "several documents": ("yaml", "a: 1\n---\nb: 2\n", "several YAML documents"),
    "a tab": ("yaml", "a:\n\tb: 1\n", "line 2, column 1"),
    "an alias of nothing": ("yaml", "a: *b\n", "there is no anchor 'b'"),
    "a key twice": ("yaml", "a: 1\nb: 2\na: 3\n", "the key 'a' occurs twice, on lines 1 and 3"),
    "without end": ("yaml", "[" * 60 + "]" * 60, "nested deeper than"),
    "brackets without end": ("toml", "b = 1\na = " + "[" * 60 + "]" * 60, "line 2: nested deeper than 50 levels"),
    "brackets without any end": ("toml", "a = " + "[" * 9999 + "]" * 9999, "nested too deep"),
    "keys without end": ("toml", "a." * 3000 + "b = 1", "nested too deep"),
    "two values": ("toml", "a = 1\na = 2\n", "Cannot overwrite a value"),
    "no equals sign": ("toml", "a 1\n", "line 1"),
    "a member twice": ("json", '{"a": 1, "a": 2}', "the key 'a' occurs twice in one object"),
    "comments": ("json", '{\n  // why\n  "a": 1\n}', "comments, which JSON does not allow"),
    "a comma too many": ("json", '{"a": 1,}', "line 1, column"),
    "no number at all": ("json", '{"a": NaN}', "NaN is not JSON"),
}


@every_row("case", UNPARSABLE.values(), ids=UNPARSABLE)
def test_what_cannot_be_understood_is_refused_with_its_place(case):
    form, text, words = case
    with pytest.raises(Unparsable) as caught:
        patched(text, form, DesiredValues(set={"z": "1"}))
    assert words in str(caught.value)


def test_a_member_that_occurs_twice_is_not_called_a_number_that_is_too_long():
    with pytest.raises(Unparsable, match=r"^the key 'a' occurs twice in one object$"):
        patched('{"a": 1, "a": 2}', "json", DesiredValues(set={"z": "1"}))


@every_row(
    ("text", "wanted", "holds"),
    [
        ("a: 7200\n", 7200, True),
        ("a: '7200'\n", 7200, False),
        ("a: 7200\n", "7200", False),
        ("a: 7200.0\n", 7200, False),
        ("a: true\n", 1, False),
        ("a: yes\n", True, False),
        ("a: [1, x]\n", [1, "x"], True),
        ("a: {c: 2, b: 1}\n", {"b": 1}, True),
        ("a: ~\n", None, True),
        ("a: 010\n", 8, False),
    ],
)
def test_values_are_compared_with_their_types(text, wanted, holds):
    found = patched(text, "yaml", DesiredValues(set={"a": wanted}))
    assert (found.differing == ()) is holds
    assert (found.text == text) is holds


def test_a_number_is_raised_and_never_lowered():
    wanted = DesiredValues(at_least={"a": 10, "b": 10, "c": 10})
    found = patched("a: 9\nb: 11.5\n", "yaml", wanted)
    assert found.text == "a: 10\nb: 11.5\nc: 10\n"
    assert (found.differing, found.missing) == (("a",), ("c",))
    assert patched(found.text, "yaml", wanted).differing == ()


@every_row("form", ["yaml", "toml", "json"])
def test_line_breaks_a_mark_and_a_missing_end_stay(form):
    plain = {
        "yaml": "s:\n  a: 1\n",
        "toml": "[s]\na = 1\n",
        "json": '{\n  "s": {\n    "a": 1\n  }\n}\n',
    }
    before = plain[form]
    after = patched(before, form, DesiredValues(set={"s.a": 2, "s.b": 3})).text
    assert after.count("\n") == before.count("\n") + 1
    windows = patched("\ufeff" + before.replace("\n", "\r\n"), form, DesiredValues(set={"s.a": 2, "s.b": 3})).text
    assert windows == "\ufeff" + after.replace("\n", "\r\n")
    assert patched(before[:-1], form, DesiredValues(set={"s.a": 2, "s.b": 3})).text == after[:-1]


def test_a_file_that_is_new_or_empty_is_filled():
    wanted = DesiredValues(set={"a.b": 1, "c": "x"}, parents=True)
    assert patched("", "yaml", wanted).text == "a:\n  b: 1\nc: x\n"
    assert patched("", "json", wanted).text == '{\n  "a": {\n    "b": 1\n  },\n  "c": "x"\n}\n'
    assert tomllib.loads(patched("", "toml", wanted).text) == {"a": {"b": 1}, "c": "x"}
    assert patched("# only this\n", "yaml", wanted).text == "# only this\na:\n  b: 1\nc: x\n"


def test_the_ending_says_what_is_in_a_file():
    names = ["a.yml", "/x/a.YAML", "a.toml", "daemon.json", "x.service", "setup.cfg", "nginx.conf", "/a.yaml/b", "x"]
    assert [format_of(it) for it in names] == ["yaml", "yaml", "toml", "json", "", "", "", "", ""]


WORD = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), min_size=1, max_size=8)


@given(st.lists(WORD, min_size=1, max_size=4).map(tuple))
def test_a_key_is_read_as_it_was_written(path):
    assert key_path(key_text(path)) == path


@every_row("text", ["", ".", "a.", ".a", "a..b", '"a', "a.'b"])
def test_what_is_no_key_is_refused(text):
    with pytest.raises(ValueError, match="is not a key"):
        key_path(text)


NAME = st.sampled_from(["a", "b", "c d", "e.f", "on", "7", "ü", "request_timeout"])
SCALAR = st.one_of(
    st.integers(-(2**40), 2**40), st.booleans(), st.floats(allow_nan=False, allow_infinity=False), WORD,
    st.sampled_from(["yes", "1e5", "0x1F", "2026-01-01", "~", "${a.b}", "{{ x }}", "a: b", "#", "- x", "", " ", "'", '"', "a\nb\n", "\u2028", "\x07"]),
)  # fmt: skip
VALUE = st.one_of(SCALAR, st.lists(SCALAR, max_size=3))
TREE = st.dictionaries(NAME, st.one_of(VALUE, st.dictionaries(NAME, VALUE, max_size=3)), max_size=4)


def flow_yaml(value) -> str:
    if isinstance(value, float):
        return yaml.safe_dump(value).split("\n")[0]
    return json.dumps(value, ensure_ascii=not isinstance(value, str) or all(ord(it) < 0xFFFF for it in value))


@st.composite
def yaml_texts(draw, tree=None, indent=0):
    """YAML as people write it: comments, blank lines, quotes, braces."""
    tree = draw(TREE) if tree is None else tree
    lines = []
    for key, value in tree.items():
        if draw(st.booleans()):
            lines.append(draw(st.sampled_from(["", f"{' ' * indent}# about it: x", "  # anywhere"])))
        comment = draw(st.sampled_from(["", "  # why: not", " #"]))
        name = json.dumps(key) if draw(st.booleans()) or key in ("on", "7", "e.f") else key
        if isinstance(value, dict) and value and draw(st.booleans()):
            lines += [
                f"{' ' * indent}{name}:{comment}",
                draw(yaml_texts(tree=value, indent=indent + draw(st.sampled_from([1, 2, 4])))),
            ]
        elif isinstance(value, list) and value and draw(st.booleans()):
            lines += [f"{' ' * indent}{name}:{comment}", *(f"{' ' * indent}- {flow_yaml(it)}" for it in value)]
        elif isinstance(value, dict):
            inner = ", ".join(
                f"{json.dumps(k)}: {'[' + ', '.join(map(flow_yaml, v)) + ']' if isinstance(v, list) else flow_yaml(v)}"
                for k, v in value.items()
            )
            lines.append(f"{' ' * indent}{name}: {{{inner}}}{comment}")
        elif isinstance(value, list):
            lines.append(f"{' ' * indent}{name}: [{', '.join(map(flow_yaml, value))}]{comment}")
        else:
            lines.append(f"{' ' * indent}{name}: {flow_yaml(value)}{comment}")
    return "\n".join(lines) if indent else "\n".join(lines) + draw(st.sampled_from(["", "\n", "\n# the end\n"]))


@st.composite
def toml_texts(draw):
    """TOML as people write it."""
    tree, lines = draw(TREE), []
    written = {key: it for key, it in tree.items() if not isinstance(it, dict)}
    for key, it in written.items():
        lines.append(f"{json.dumps(key)} = {toml_value(it)}{draw(st.sampled_from(['', '  # why', ' ']))}")
    for key, table in tree.items():
        if isinstance(table, dict):
            lines += draw(st.sampled_from([[""], ["# about it"], ["", "# about it", ""]]))
            lines.append(f"[{json.dumps(key)}]{draw(st.sampled_from(['', ' # why']))}")
            lines += [f"{json.dumps(name)} = {toml_value(it)}" for name, it in table.items()]
    return "\n".join(lines) + draw(st.sampled_from(["", "\n", "\n# the end\n"]))


def toml_value(value) -> str:
    match value:
        case float():
            return repr(value)
        case list():
            return f"[{', '.join(map(toml_value, value))}]"
        case bool() | int():
            return json.dumps(value)
    return json.dumps(value, ensure_ascii=not value.isascii() and all(ord(it) < 0xFFFF for it in value))


def json_texts():
    return st.builds(
        lambda tree, indent, ascii: json.dumps(tree, indent=indent, ensure_ascii=ascii),
        TREE, st.sampled_from([None, 1, 4, "\t"]), st.booleans(),
    )  # fmt: skip


LOADED = {"yaml": lambda text: yaml.safe_load(text) or {}, "toml": tomllib.loads, "json": json.loads}
TEXTS = {"yaml": yaml_texts(), "toml": toml_texts(), "json": json_texts()}
PATHS = st.lists(NAME, min_size=1, max_size=3).map(tuple)


def with_value(tree, path, value):
    if len(path) == 1:
        return {**tree, path[0]: value}
    return {**tree, path[0]: with_value(tree.get(path[0]) or {}, path[1:], value)}


@pytest.mark.parametrize("form", ["yaml", *(pytest.param(it, marks=pytest.mark.slow) for it in ("toml", "json"))])
@given(draw=st.data())
def test_any_text_gets_any_value_and_keeps_everything_else(form, draw):
    """Held by other parsers than the one that found the place."""
    before, path, value = draw.draw(TEXTS[form]), draw.draw(PATHS), draw.draw(VALUE)
    old = LOADED[form](before)
    wanted = DesiredValues(set={key_text(path): value}, parents=True)
    found = patched(before, form, wanted)
    if found.conflict:
        assert found.text == before
        assert "edit it by hand" not in found.conflict, "such a simple text can be edited"
        assert any(not isinstance(at(old, path[:depth]), dict) for depth in range(1, len(path))) or isinstance(
            at(old, path), dict
        )
        return
    assert LOADED[form](found.text) == with_value(old, path, value)
    assert patched(found.text, form, wanted).text == found.text, "a second time changes nothing"
    lines = change(before, found.text)
    if form != "json" and at(old, path) is None and not any(it.startswith("-") for it in lines):
        kept = [it[2:] for it in compared(before, found.text) if it[0] == " "]
        assert "\n".join(kept) == before, "without the lines that were put in it is what it was"
    assert sum(it.startswith("-") for it in lines) <= 8


@pytest.mark.parametrize("form", ["yaml", "toml", "json"])
@given(draw=st.data())
@pytest.mark.slow
def test_what_was_put_in_can_be_taken_out(form, draw):
    before, path, value = draw.draw(TEXTS[form]), draw.draw(PATHS), draw.draw(SCALAR)
    old = LOADED[form](before)
    assume(all(isinstance(at(old, path[:depth]), dict) for depth in range(1, len(path))) and at(old, path) is None)
    added = patched(before, form, DesiredValues(set={key_text(path): value}))
    assert added.conflict == ""
    out = patched(added.text, form, DesiredValues(unset=(key_text(path),)))
    assert out.conflict == ""
    assert LOADED[form](out.text) == old


def at(tree, path):
    for word in path:
        tree = tree.get(word) if isinstance(tree, dict) else None
    return tree


BREAKS = ["\x85", "\u2028", "\u2029"]


@every_row("mark", BREAKS)
@every_row("line", ["# said{}", "# one{}# two", 'said: "one{}two"', "said: 'one{} two'"])
def test_a_character_that_only_old_readers_take_for_a_line_break_stays_and_moves_nothing(mark, line):
    text = f"{line.format(mark)}\nb: 2  # kept\nc:\n  - 1\n"
    made = patched(text, "yaml", DesiredValues(set={"b": 3, "d": 4}))
    assert made.conflict == ""
    assert made.text == f"{line.format(mark)}\nb: 3  # kept\nc:\n  - 1\nd: 4\n"
    for form, other in (("toml", f"# said{mark}x\nb = 2\n"), ("json", f'{{"a": "x{mark}y", "b": 2}}\n')):
        made = patched(other, form, DesiredValues(set={"b": 3}))
        assert made.text == other.replace("2", "3")


@every_row("mark", BREAKS)
@every_row("line", ["# said{}b: 5", "a: 1  # x{}y: 5", "a: one{}two", "a: 5{}"])
def test_where_readers_of_two_versions_of_yaml_would_disagree_nothing_is_written_and_the_line_is_right(mark, line):
    """Mutants: the reading of one version alone."""
    text = f"# first\n{line.format(mark)}\nz: 2\n"
    with pytest.raises(Unparsable, match=rf"^line 2: U\+{ord(mark):04X} ends a line in YAML 1.1"):
        patched(text, "yaml", DesiredValues(set={"z": 3}))
    with pytest.raises(Unparsable, match=r"^line 4\b"):
        patched(f"# x{mark}# y\n# z{mark}\na: 1\nb: 1: 2\n", "yaml", DesiredValues(set={"a": 3}))


@every_row("number", ["9223372036854775808", "-9223372036854775809", "0xffffffffffffffffff", "9" * 5000])
@every_row("place", ["a = {}\nb = 1\n", "b = 1\n[t]\nx = [1, {{y = {}}}]\n", "b = 1\n[[t]]\nx = {}\n"])
def test_an_integer_that_toml_has_not_is_a_mistake_of_the_file_and_nothing_is_rewritten(number, place):
    """Mutants: only those that are changed; lists left out."""
    with pytest.raises(Unparsable, match="has 64 bits at most"):
        patched(place.format(number), "toml", DesiredValues(set={"b": 2}))


def test_the_largest_integers_of_toml_are_kept_and_larger_ones_are_not_written():
    text = "x = -9223372036854775808\ny = 9223372036854775807\nb = 1\n"
    assert patched(text, "toml", DesiredValues(set={"b": 2})).text == text.replace("b = 1", "b = 2")
    for wanted in (
        DesiredValues(set={"b": 2**63}),
        DesiredValues(at_least={"b": 2**70}),
        DesiredValues(set={"n": [1, {"m": -(2**64)}]}),
    ):
        made = patched(text, "toml", wanted)
        assert "has 64 bits at most" in made.conflict
        assert made.text == text
