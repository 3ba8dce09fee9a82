"""A gateway that gives only so many channels: an SSH server of our own that connects through to where it is asked to."""

from __future__ import annotations

import contextlib
import socket
import threading

import paramiko
from paramiko.common import AUTH_SUCCESSFUL, OPEN_FAILED_RESOURCE_SHORTAGE, OPEN_SUCCEEDED

from runbook.values.inventory import Address, Host, HostKeys


class ShortGateway:
    """Gives *most* channels at once on one connection, after having refused the first *refused*; counts both.

    A *mute* one answers nobody who asks for a channel before ``answers`` is set.
    """

    def __init__(self, key: str, most: int = 1000, refused: int = 0, *, mute: bool = False) -> None:
        self.most, self.refused = most, refused
        self.answers = threading.Event()
        if not mute:
            self.answers.set()
        self.connections = self.refusals = self.given = 0
        self.open: dict[paramiko.Transport, int] = {}
        self.lock = threading.Lock()
        self._key = paramiko.Ed25519Key.from_private_key_file(key)
        self._server = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self._server.getsockname()[1]
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def host(self, key: str) -> Host:
        """It as a host of an inventory."""
        address = Address(host="127.0.0.1", port=self.port)
        return Host(name="short", addresses=(address,), user="root", key=key, host_keys=HostKeys.IGNORE)

    def stop(self) -> None:
        """Take no more, and end what there is."""
        self._server.shutdown(socket.SHUT_RDWR)
        self._accepting.join(60)
        self._server.close()
        for transport in list(self.open):
            transport.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._server.accept()
                self.connections += 1
                transport = paramiko.Transport(client)
                transport.add_server_key(self._key)
                self.open[transport] = 0
                threading.Thread(target=transport.start_server, kwargs={"server": _Door(self, transport)}).start()


class _Door(paramiko.ServerInterface):
    def __init__(self, gateway: ShortGateway, transport: paramiko.Transport) -> None:
        self._gateway, self._transport, self._wanted = gateway, transport, {}

    def get_allowed_auths(self, username: str) -> str:
        return "publickey"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        return AUTH_SUCCESSFUL

    def check_channel_direct_tcpip_request(self, chanid: int, origin, destination) -> int:
        gateway = self._gateway
        gateway.answers.wait(120)
        with gateway.lock:
            if gateway.refused > 0 or gateway.open[self._transport] >= gateway.most:
                gateway.refused -= 1
                gateway.refusals += 1
                return OPEN_FAILED_RESOURCE_SHORTAGE
            gateway.open[self._transport] += 1
            gateway.given += 1
        threading.Thread(target=self._serve, args=(destination,), daemon=True).start()
        return OPEN_SUCCEEDED

    def _serve(self, destination) -> None:
        channel = self._transport.accept(60)
        with contextlib.suppress(OSError, EOFError), socket.create_connection(destination) as there:
            back = threading.Thread(target=_carry, args=(there.recv, channel.sendall), daemon=True)
            back.start()
            _carry(channel.recv, there.sendall)
            with contextlib.suppress(OSError):
                there.shutdown(socket.SHUT_RDWR)
            back.join()
        channel.close()
        with self._gateway.lock:
            self._gateway.open[self._transport] -= 1


def _carry(take, give) -> None:
    with contextlib.suppress(OSError, EOFError):
        while data := take(32768):
            give(data)
