"""A process of our own that sends one command, so that a test can kill it: HOST-JSON EFFECT SCRIPT."""

from __future__ import annotations

import json
import sys

from runbook.connections import transports
from runbook.protocols import ConnectOptions
from runbook.values.command import Command, Effect
from runbook.values.inventory import Address, Container, Host, HostKeys


class Never:
    def level(self) -> int:
        return 0


told, kind, script, timeout = json.loads(sys.argv[1]), sys.argv[2], sys.argv[3], float(sys.argv[4])
confined = kind == "confined"
effect = Effect.READ if confined else Effect(kind)
host = Host(
    name="h",
    transport=told["transport"],
    addresses=tuple(Address(host=it, port=told["port"]) for it in told["addresses"]),
    user=told["user"],
    key=told["key"],
    host_keys=HostKeys.IGNORE,
    container=Container(**told["container"]) if told["container"] else None,
)
connection = transports.load(host.transport).connect(host, ConnectOptions(), Never())
print("connected", flush=True)
print(
    connection.run(Command(script=script, effect=effect, timeout=timeout, foreign=confined, confined=confined)),
    flush=True,
)
