"""mock-ssh-server in a process of its own: SSH by Paramiko alone, which needs no sshd, no root and no lab.

Its words are the user's name and a private key (RSA, in PEM form) with which that user is let in; it prints its port, and
serves until its standard input ends.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys

import mockssh
import paramiko
from mockssh import server
from mockssh.streaming import Stream, StreamTransfer


class _Transfer(StreamTransfer):
    """Its streams as they come: 0.9.1 reads line by line through a buffer that select(2) does not see, and never ends an input."""

    WAIT = 0.02
    """Seconds; its own loop never waits, and would keep a core busy for each open channel."""

    def ssh_to_process(self, channel, process_stream):
        def passed(data: bytes) -> None:
            if data:
                process_stream.write(data)
            else:
                process_stream.close()

        return Stream(channel, lambda: channel.recv(1 << 16), passed, lambda: None)

    @staticmethod
    def process_to_ssh(process_stream, write_func):
        return Stream(process_stream, lambda: os.read(process_stream.fileno(), 1 << 16), write_func, lambda: None)

    def transfer(self, selector):
        while self.process.poll() is None:
            for key, _ in selector.select(self.WAIT):
                if not key.data.transfer():
                    selector.unregister(key.fileobj)

    def drain(self, selector):
        for stream in self.streams[1:]:
            stream.drain()


class _Handler(server.Handler):
    def handle_client(self, channel):
        command = self.command_queues[channel.chanid].get()
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        # where nobody is there any more, the pipes close, as sshd closes them
        with (
            subprocess.Popen(command, shell=True, bufsize=0, start_new_session=True, **pipes) as process,
            contextlib.suppress(OSError, EOFError, paramiko.SSHException),
        ):
            _Transfer(channel, process).run()
            if process.returncode >= 0:  # of one that a signal has ended, sshd names the signal instead
                channel.send_exit_status(process.returncode)
        with contextlib.suppress(EOFError):
            channel.close()


def main(user: str, key: str) -> None:
    with mockssh.Server({user: key}) as served:
        served.handler_cls = _Handler
        print(served.port, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
