"""The settings that dockerd refuses in its file: options of another log driver, wrong types, keys that are also flags.

Sources: moby `daemon/logger/*` (each driver's ValidateLogOpt, and factory.go for those of every driver) of 20.10 to 28,
`daemon/config/config.go`, and https://docs.docker.com/reference/cli/dockerd/ (the type of each key).
`dockerd --validate` does not look at log options, so that they are held against this table also where it is there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

_LABELLED = frozenset({"env", "env-regex", "labels", "labels-regex"})
_EVERY = frozenset({"mode", "max-buffer-size", "cache-disabled", "cache-max-size", "cache-max-file", "cache-compress"})
"""Options that dockerd itself takes, whatever the driver is."""

LOG_OPTIONS: Mapping[str, frozenset[str]] = {
    "json-file": _LABELLED | {"max-size", "max-file", "compress", "tag"},
    "local": frozenset({"max-size", "max-file", "compress"}),
    "journald": _LABELLED | {"tag"},
    "syslog": _LABELLED
    | {"tag", "syslog-address", "syslog-facility", "syslog-format", "syslog-tls-ca-cert", "syslog-tls-cert"}
    | {"syslog-tls-key", "syslog-tls-skip-verify"},
    "gelf": _LABELLED
    | {"tag", "gelf-address", "gelf-compression-level", "gelf-compression-type", "gelf-tcp-max-reconnect"}
    | {"gelf-tcp-reconnect-delay"},
    "fluentd": _LABELLED
    | {"tag", "fluentd-address", "fluentd-async", "fluentd-async-connect", "fluentd-async-reconnect-interval"}
    | {"fluentd-buffer-limit", "fluentd-max-retries", "fluentd-request-ack"}
    | {"fluentd-retry-wait", "fluentd-sub-second-precision", "fluentd-read-timeout", "fluentd-write-timeout"},
    "splunk": _LABELLED
    | {"tag", "splunk-url", "splunk-token", "splunk-source", "splunk-sourcetype", "splunk-index", "splunk-capath"}
    | {"splunk-caname", "splunk-insecureskipverify", "splunk-format", "splunk-verify-connection", "splunk-gzip"}
    | {"splunk-gzip-level", "splunk-index-acknowledgment"},
    "awslogs": frozenset(
        {"tag", "awslogs-region", "awslogs-endpoint", "awslogs-group", "awslogs-stream", "awslogs-create-group"}
        | {"awslogs-create-stream", "awslogs-credentials-endpoint", "awslogs-datetime-format", "awslogs-format"}
        | {"awslogs-force-flush-interval-seconds", "awslogs-max-buffered-events", "awslogs-multiline-pattern"}
    ),
    "gcplogs": _LABELLED | {"gcp-project", "gcp-log-cmd", "gcp-meta-zone", "gcp-meta-name", "gcp-meta-id"},
}
"""The options of each driver that is built in; of another one (a plugin) dockerd looks at none."""

_WANTS: Mapping[str, tuple[str, ...]] = {
    "true or false": (
        *("debug", "experimental", "icc", "init", "ip-forward", "ip-masq", "ip6tables", "iptables", "ipv6"),
        *("live-restore", "no-new-privileges", "raw-logs", "selinux-enabled", "tls", "tlsverify", "userland-proxy"),
    ),
    "a text": (
        *("bip", "bridge", "cgroup-parent", "containerd", "data-root", "default-cgroupns-mode", "default-ipc-mode"),
        *("default-runtime", "exec-root", "fixed-cidr", "fixed-cidr-v6", "group", "init-path", "log-driver"),
        *("log-format", "log-level", "metrics-addr", "pidfile", "seccomp-profile", "storage-driver", "tlscacert"),
        *("tlscert", "tlskey", "userland-proxy-path", "userns-remap"),
    ),
    "a list": (
        *("authorization-plugins", "default-address-pools", "dns", "dns-opts", "dns-search", "exec-opts", "hosts"),
        *("insecure-registries", "labels", "node-generic-resources", "registry-mirrors", "storage-opts"),
    ),
    "a whole number": (
        *("max-concurrent-downloads", "max-concurrent-uploads", "max-download-attempts", "mtu"),
        *("network-control-plane-mtu", "oom-score-adjust", "shutdown-timeout"),
    ),
    "a mapping": ("builder", "default-ulimits", "features", "log-opts", "runtimes"),
}
_WANTED: Mapping[str, str] = {key: kind for kind, keys in _WANTS.items() for key in keys}


def refusals(
    config: Mapping[str, Any], running: str, drivers: Collection[str], before: Collection[str], allowed: Collection[str]
) -> Iterator[str]:
    """Yield the reasons why dockerd would not start with *config*; they repeat no value except the driver's name.

    *running*: the log driver of the running dockerd.  *drivers*: its available drivers (empty: unknown).  *before*: the
    log options that its file had.  *allowed*: further options that are not checked.
    """
    yield from _wrong_types(config)
    options, driver = config.get("log-opts"), config.get("log-driver")
    options = options if isinstance(options, Mapping) else {}
    for key, value in options.items():
        if value is not None and not isinstance(value, str):
            yield f"log option {key}: must be a text in quotes, but is {_called(value)}"
    name = driver if isinstance(driver, str) and driver else running
    if drivers and name not in drivers and name not in ("none", running):
        yield f"log driver {name}: this Docker has no such driver (available: {', '.join(sorted(drivers))}, none)"
        return
    usual = before if name == running else ()
    yield from _options(name, {key: str(value) for key, value in options.items()}, {*usual, *allowed})


_SHORT: Mapping[str, str] = {
    "-H": "hosts", "-D": "debug", "-l": "log-level", "-s": "storage-driver", "-g": "data-root", "-G": "group",
    "-b": "bridge", "-p": "pidfile",
}  # fmt: skip
_PLURAL: Mapping[str, str] = {
    "host": "hosts", "log-opt": "log-opts", "label": "labels", "registry-mirror": "registry-mirrors",
    "insecure-registry": "insecure-registries", "storage-opt": "storage-opts", "exec-opt": "exec-opts",
    "default-ulimit": "default-ulimits", "authorization-plugin": "authorization-plugins", "dns-opt": "dns-opts",
    "default-address-pool": "default-address-pools", "graph": "data-root",
}  # fmt: skip
"""Flags that the file calls otherwise (moby: the names of `NewNamedListOptsRef` in cmd/dockerd/config.go)."""


def conflicts(config: Mapping[str, Any], command_line: Iterable[str]) -> Iterator[str]:
    """Yield the keys of the file that are also flags of *command_line*: dockerd would not start.

    Source: moby `daemon/config/config.go`, findConfigurationConflicts; runtimes may be in both.
    """
    flags = (word.partition("=")[0] for word in command_line if word.startswith("-"))
    keys = {_SHORT.get(flag) or _PLURAL.get(flag.lstrip("-"), flag.lstrip("-")): flag for flag in flags}
    for key in sorted(keys.keys() & config.keys()):
        yield f"{key}: dockerd is started with {keys[key]}, and does not start with both, even if they are equal"


def _wrong_types(config: Mapping[str, Any]) -> Iterator[str]:
    for key, value in config.items():
        wanted = _WANTED.get(key)
        if wanted and value is not None and _called(value) != wanted:
            yield f"{key}: must be {wanted}, but is {_called(value)}"


def _called(value: object) -> str:
    match value:
        case bool():
            return "true or false"
        case str():
            return "a text"
        case int():
            return "a whole number"
        case float():
            return "a number with a fraction"
        case Mapping():
            return "a mapping"
    return "a list"


def _options(driver: str, options: Mapping[str, str], usual: Collection[str]) -> Iterator[str]:
    if driver == "none":
        return
    mode = options.get("mode", "")
    if mode not in ("", "blocking", "non-blocking"):
        yield "log option mode: must be blocking or non-blocking"
    if "max-buffer-size" in options and mode != "non-blocking":
        yield "log option max-buffer-size: allowed with mode=non-blocking only"
    known = LOG_OPTIONS.get(driver)
    if known is None:
        return
    if driver == "gelf" and not options.get("gelf-address"):
        yield "log driver gelf: gelf-address is required"
    for key in sorted(options):
        whose = sorted(name for name, theirs in LOG_OPTIONS.items() if key in theirs)
        if key in known | _EVERY or (key in usual and not whose):
            continue
        hint = f" (it is an option of {', '.join(whose)})" if whose else ""
        yield f"log option {key}: log driver {driver} does not support it{hint}"
