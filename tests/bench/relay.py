"""A relay on loopback with a long way: ``python -m tests.bench.relay PORT TO_PORT MILLISECONDS``.

What comes in at PORT of any local address goes to TO_PORT of the same address, and back, each way after half of the
milliseconds: one round trip takes all of them.
"""

from __future__ import annotations

import asyncio
import sys


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay: float) -> None:
    loop = asyncio.get_running_loop()
    waiting: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

    async def write() -> None:
        while True:
            due, data = await waiting.get()
            await asyncio.sleep(max(0.0, due - loop.time()))
            if not data:
                break
            writer.write(data)
            await writer.drain()
        writer.close()

    writing = asyncio.create_task(write())
    try:
        while data := await reader.read(65536):
            waiting.put_nowait((loop.time() + delay, data))
    except ConnectionError:
        pass
    waiting.put_nowait((loop.time() + delay, b""))
    await asyncio.gather(writing, return_exceptions=True)


async def _serve(port: int, to_port: int, delay: float) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        address = writer.get_extra_info("sockname")[0]
        far_reader, far_writer = await asyncio.open_connection(address, to_port)
        await asyncio.gather(_pass_on(reader, far_writer, delay), _pass_on(far_reader, writer, delay))

    server = await asyncio.start_server(serve, "0.0.0.0", port, backlog=1000)
    print("ready", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]) / 2000))
