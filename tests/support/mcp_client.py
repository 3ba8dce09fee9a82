"""An assistant's client of ``runbook mcp``: the package's own session with the real program, over stdio."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import anyio
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp_types import CallToolResult

T = TypeVar("T")

PROGRAM = ("-m", "runbook", "mcp")


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "XDG_STATE_HOME": str(folder / "state"), "HOME": str(folder)}


def conversation(folder: Path, talk: Callable[[ClientSession], Awaitable[T]], *options: str) -> T:
    """What *talk* returns, which speaks with a server that was started in *folder* with *options*."""

    async def whole() -> T:
        given = StdioServerParameters(
            command=sys.executable, args=[*PROGRAM, "-i", "hosts.yaml", *options], cwd=folder, env=environment(folder)
        )
        with (folder / "stderr").open("a") as log:
            async with (
                stdio_client(given, errlog=log) as (reading, writing),
                ClientSession(reading, writing) as session,
            ):
                await session.initialize()
                return await talk(session)

    return anyio.run(whole)


def call(folder: Path, name: str, *options: str, **arguments: object) -> CallToolResult:
    """The answer of one tool."""
    return conversation(folder, lambda session: session.call_tool(name, arguments), *options)


def value(result: CallToolResult) -> dict:
    """The structured answer of a call that went well."""
    assert not result.is_error, result.content
    return result.structured_content


def error(result: CallToolResult) -> str:
    assert result.is_error, result.structured_content
    return result.structured_content["error"]


@contextmanager
def raw_server(folder: Path, *options: str):
    """The program itself, with pipes."""
    argv = (sys.executable, *PROGRAM, "-i", "hosts.yaml", *options)
    process = subprocess.Popen(
        argv, cwd=folder, env=environment(folder), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.communicate()
