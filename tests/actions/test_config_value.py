"""Values in configuration files: looked up in every format, compared, and never guessed."""

from __future__ import annotations

import json

import pytest

from runbook.codec import to_json
from runbook.errors import ConfigError, ProbeError
from runbook.language.arguments import build
from runbook.library.config import config_value
from runbook.protocols import Fails, Holds
from runbook.values.command import Effect
from runbook.values.types import Unknown
from tests.support.probe_driver import SHELLS, Here, drive
from tests.support.real_processes import each
from tests.support.tables import every_row

shells = pytest.mark.parametrize("shell", each(SHELLS))


def looked(read, shell=SHELLS["dash"], **values):
    made = build(config_value.Args, {"read": read, **values})
    here = Here(shell=shell)
    state = drive(config_value.probe(made), here)
    assert all(it.effect is Effect.READ and it.private for it in here.sent)
    assert len(here.sent) == len({it["file"] for it in read.values()})
    json.dumps(to_json(state))
    return made, state


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "orch.toml").write_text(
        'async_level = 0\nsince = 2025-01-31\n[client]\nbase_url = "http://localhost:8000/v1"\n"a.b" = [1, 2]\n'
    )
    (tmp_path / "train.yaml").write_text(
        "# a comment\nrollout:\n  request_timeout: 3600\n  model: ${actor.path}\n  old: no\nurl: http://localhost:8000/v1\n"
    )
    (tmp_path / "daemon.json").write_text('{"log-opts": {"max-size": "100m"}, "live-restore": true, "none": null}')
    return tmp_path


@shells
def test_values_are_found_in_every_format_with_their_types(folder, shell):
    _, state = looked(
        {
            "level": {"file": f"{folder}/orch.toml", "key": "async_level"},
            "list": {"file": f"{folder}/orch.toml", "key": 'client."a.b"'},
            "day": {"file": f"{folder}/orch.toml", "key": "since"},
            "timeout": {"file": f"{folder}/train.yaml", "key": "rollout.request_timeout"},
            "model": {"file": f"{folder}/train.yaml", "key": "rollout.model"},
            "size": {"file": f"{folder}/daemon.json", "key": "log-opts.max-size"},
            "live": {"file": f"{folder}/daemon.json", "key": "live-restore"},
            "none": {"file": f"{folder}/daemon.json", "key": "none"},
        },
        SHELLS[shell],
    )
    assert dict(state.values) == {
        "level": 0, "list": [1, 2], "day": "2025-01-31", "timeout": 3600, "model": "${actor.path}", "size": "100m",
        "live": True, "none": None,
    }  # fmt: skip
    assert (state.missing, state.problems) == ((), {})


def test_a_key_that_is_not_there_has_its_default_or_is_missing(folder):
    made, state = looked(
        {
            "a": {"file": f"{folder}/train.yaml", "key": "rollout.setup_timeout", "default": 120},
            "b": {"file": f"{folder}/train.yaml", "key": "rollout.other"},
            "c": {"file": f"{folder}/none.toml", "key": "client.base_url", "default": "http://localhost:8000/v1"},
        }
    )
    assert (state.values["a"], state.values["c"]) == (120, "http://localhost:8000/v1")
    assert isinstance(state.values["b"], Unknown)
    assert (state.missing, state.defaulted, state.missing_files) == (("b",), ("a", "c"), (f"{folder}/none.toml",))
    assert config_value.holds(made, state) == Fails(why=f"there is no rollout.other in {folder}/train.yaml")


def test_values_of_several_files_are_held_against_each_other(folder):
    read = {
        "client": {"file": f"{folder}/orch.toml", "key": "client.base_url"},
        "server": {"file": f"{folder}/train.yaml", "key": "url"},
    }
    made, state = looked(read, same=["client", "server"])
    assert (state.consistent, state.differing) == (True, ())
    assert isinstance(config_value.holds(made, state), Holds)
    (folder / "train.yaml").write_text("url: http://gpu-2:8000/v1\n")
    made, state = looked(read, same=["client", "server"])
    assert (state.consistent, state.differing) == (False, ("server",))
    assert "url in" in config_value.holds(made, state).why
    read["other"] = {"file": f"{folder}/train.yaml", "key": "nowhere"}
    assert isinstance(looked(read, same=["client", "other"])[1].consistent, Unknown)


@pytest.mark.parametrize(("wanted", "kind"), [(3600, Holds), ("3600", Fails), (7200, Fails)])
def test_a_value_is_held_against_what_is_wanted(folder, wanted, kind):
    made, state = looked(
        {"t": {"file": f"{folder}/train.yaml", "key": "rollout.request_timeout"}}, expect={"t": wanted}
    )
    assert isinstance(config_value.holds(made, state), kind)


@every_row(
    ("text", "key", "words"),
    [
        ("a: [1\n", "a", "is not valid YAML"),
        ("a: 1\n---\na: 2\n", "a", "YAML"),
        ("a: 1\n", "a.b", "is a number"),
        ("a: no\n", "a", "read differently"),
        ("a: \xff", "a", "not UTF-8"),
    ],
)
def test_what_cannot_be_understood_is_unknown_and_never_missing(tmp_path, text, key, words):
    (tmp_path / "x.yaml").write_bytes(text.encode("latin-1"))
    made, state = looked({"a": {"file": f"{tmp_path}/x.yaml", "key": key, "default": 1}}, expect={"a": 1})
    assert words in state.values["a"].why
    assert (state.missing, state.defaulted, state.differing) == ((), (), ())
    with pytest.raises(ProbeError, match=words):
        config_value.holds(made, state)


@pytest.mark.real("root", "setpriv")
def test_a_file_that_may_not_be_read_is_unknown_and_the_others_are_not(folder):
    nobody = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "dash")
    read = {
        "a": {"file": "/etc/shadow", "key": "a", "format": "yaml", "default": 1},
        "b": {"file": "/etc/os-release", "key": "b", "format": "json", "default": 1},
    }
    _, state = looked(read, nobody)
    assert isinstance(state.values["a"], Unknown)
    assert set(state.problems) == {"/etc/shadow", "/etc/os-release"}
    assert "JSON" in state.problems["/etc/os-release"]


def test_a_secret_is_compared_and_never_shown(tmp_path):
    (tmp_path / "a.json").write_text('{"api_token": "s3cr3t-one", "all": {"password": "s3cr3t-two", "x": 1}}')
    read = {
        "one": {"file": f"{tmp_path}/a.json", "key": "api_token"},
        "all": {"file": f"{tmp_path}/a.json", "key": "all"},
    }
    made, state = looked(read, expect={"one": "s3cr3t-other"})
    assert state.differing == ("one",)
    shown = json.dumps(to_json(state)) + config_value.holds(made, state).why
    assert "s3cr3t" not in shown
    assert state.values == {"one": "***", "all": {"password": "***", "x": 1}}


@every_row(
    ("values", "words"),
    [
        ({"read": {}}, "at least one"),
        ({"read": {"a": {"file": "x.yaml", "key": "a"}}}, "not an absolute path"),
        ({"read": {"a": {"file": "/x.conf", "key": "a"}}}, "give `format: yaml`, toml or json; INI is not read"),
        ({"read": {"a": {"file": "/x.ini", "key": "a"}}}, "give `format: yaml`, toml or json; INI is not read"),
        ({"read": {"a": {"file": "/x", "key": "a", "format": "ini"}}}, "use one of: auto, yaml, toml, json"),
        ({"read": {"a": {"file": "/x.yaml", "key": "a..b"}}}, "not a key"),
        ({"read": {"a": {"file": "/x.yaml", "key": "a"}}, "same": ["a"]}, "at least two names"),
        ({"read": {"a": {"file": "/x.yaml", "key": "a"}}, "expect": {"b": 1}}, "'b' is not a name under `read`"),
    ],
)
def test_a_mistake_is_refused(values, words):
    with pytest.raises(ConfigError, match=words):
        build(config_value.Args, values)
