"""What dockerd refuses when it starts is known beforehand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runbook.errors import ProbeError
from runbook.language.arguments import build
from runbook.library.docker import dockerd_config
from runbook.library.docker.facts.daemon_options import LOG_OPTIONS, refusals
from runbook.values.types import Unknown
from tests.support.probe_driver import Here, drive


def why(config, running="json-file", drivers=(), before=(), allowed=()):
    return list(refusals(config, running, drivers, before, allowed))


def test_options_of_the_driver_before_are_refused_with_whose_they_are():
    config = {"log-driver": "journald", "log-opts": {"max-size": "10m", "tag": "x"}}
    (said,) = why(config)
    assert said.startswith(
        "log option max-size: log driver journald does not support it (it is an option of json-file, local)"
    )
    assert why({**config, "log-driver": "json-file"}) == []
    assert why({**config, "log-driver": "none"}) == []
    assert why({**config, "log-driver": "loki:latest"}) == []


def test_a_driver_that_this_docker_has_not_is_refused():
    (said,) = why({"log-driver": "jsonfile"}, drivers=["json-file", "local"])
    assert said == "log driver jsonfile: this Docker has no such driver (available: json-file, local, none)"
    assert why({"log-driver": "local"}, drivers=["json-file", "local"]) == []


def test_an_option_that_a_newer_docker_runs_with_is_left_alone_and_one_of_another_driver_never():
    config = {"log-opts": {"newest": "1"}}
    assert why(config, before=["newest"]) == []
    assert why(config, allowed=["newest"]) == []
    assert why({**config, "log-driver": "local"}, before=["newest"])
    assert why({"log-opts": {"syslog-address": "x"}}, before=["syslog-address"])


def test_no_value_of_the_file_is_repeated():
    config = {"log-opts": {"splunk-token": "s3cret", "mode": "s3cret"}, "data-root": ["s3cret"], "mtu": "s3cret"}
    assert "s3cret" not in str(why(config))


@pytest.mark.real("docker")
def test_the_table_is_what_the_engine_itself_says(engine):
    """A container is created with the options, which a real dockerd holds against the same code as its own file."""

    def unknown(driver, *options):
        given = [word for one in options for word in ("--log-opt", f"{one}=1")]
        given += ["--log-opt", "gelf-address=udp://127.0.0.1:1"] * (driver == "gelf")
        done = engine.run("create", "--log-driver", driver, *given, "base:1", "true", check=False)
        return any(words in done.stderr for words in ("unknown log opt", "not a valid option")), done.stderr

    has = json.loads(engine("info", "--format", "{{json .Plugins.Log}}"))
    assert {"json-file", "local", "journald", "syslog", "gelf"} <= set(has)
    newer = {
        "fluentd-async-reconnect-interval",
        "fluentd-read-timeout",
        "fluentd-write-timeout",
        "awslogs-format",
        "awslogs-create-stream",
    }
    for driver in sorted(set(has) & set(LOG_OPTIONS)):
        refused, said = unknown(driver, *sorted(LOG_OPTIONS[driver] - newer))
        assert not refused, (driver, said)
        for other in ("json-file", "syslog", "fluentd"):
            if foreign := sorted(LOG_OPTIONS[other] - LOG_OPTIONS[driver]):
                refused, said = unknown(driver, foreign[0])
                assert refused, (driver, foreign[0], said)


FAKE = """#!/bin/sh
case $1 in --help) echo '      --validate   Validate daemon configuration and exit'; exit;; esac
echo "$*" >{folder}/argv
cat "$3" >{folder}/asked
[ ! -e {folder}/refuse ] || {{ echo 'unable to configure the Docker daemon with file /dev/stdin: the following directives are not good: registry-token=hunter2 nonsense' >&2; exit 1; }}
echo configuration OK
"""


@pytest.fixture
def dockerd(tmp_path, monkeypatch):
    """A host whose dockerd can check a file."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/dockerd").write_text(FAKE.format(folder=tmp_path))
    (tmp_path / "bin/dockerd").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    return tmp_path


def look(folder: Path, **values):
    return drive(dockerd_config.probe(build(dockerd_config.Args, {"path": f"{folder}/daemon.json", **values})), Here())


def test_dockerd_is_asked_about_the_whole_new_text_and_no_file_is_made(dockerd):
    """Mutants: the old text; a path in place of the pipe."""
    (dockerd / "daemon.json").write_text('{"debug": true}\n')
    before = sorted(dockerd.iterdir())
    state = look(dockerd, set={"log-driver": "local"})
    assert (state.accepted, state.refusals, state.changes) == (True, (), True)
    assert json.loads((dockerd / "asked").read_text()) == {"debug": True, "log-driver": "local"}
    assert (dockerd / "argv").read_text() == "--validate --config-file /dev/stdin\n"
    assert sorted({*dockerd.iterdir()} - {*before}) == [dockerd / "argv", dockerd / "asked"]
    assert (dockerd / "daemon.json").read_text() == '{"debug": true}\n'


def test_what_dockerd_says_is_shown_without_secrets(dockerd):
    (dockerd / "daemon.json").write_text("{}")
    (dockerd / "refuse").touch()
    state = look(dockerd, set={"live-restore": True})
    assert state.accepted is False
    assert "dockerd --validate: unable to configure the Docker daemon with file the new file" in state.refusals[0]
    assert "nonsense" in state.refusals[0]
    assert "hunter2" not in str(state)


def test_a_dockerd_that_cannot_check_is_never_started(dockerd):
    (dockerd / "bin/dockerd").write_text(
        f"#!/bin/sh\n[ $1 = --help ] && {{ echo usage; exit; }}\ntouch {dockerd}/started\n"
    )
    state = look(dockerd, set={"live-restore": True})
    assert isinstance(state.accepted, Unknown)
    assert not (dockerd / "started").exists()
    assert state.refusals == ()


def test_a_file_that_is_no_json_is_unknown(tmp_path):
    for text in ("{", "[1]", '{"a": 1,}'):
        (tmp_path / "daemon.json").write_text(text)
        with pytest.raises(ProbeError, match=r"JSON|mapping"):
            look(tmp_path, set={"live-restore": True})
