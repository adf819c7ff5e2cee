"""A process that has imported the lab once and forks labs: what each of them would import takes longer than most tests.

Run as a program it is that process. It is handed, over a socket, a command line, a folder, the environment, and where
to write; the process it forks then does what a newly started Python would do with them.
"""

import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path

MOST = 1 << 20  # bytes of one order; an environment is much smaller


class Lab:
    """A forked process, with as much of `subprocess.Popen` as tests of a lab ask for."""

    def __init__(self, pid, handle, stdout):
        self.pid, self._handle, self.stdout = pid, handle, stdout

    def poll(self):
        """None while it runs."""
        return None if self._runs(0) else 0

    def wait(self, timeout=None):
        """Wait for its end, at most so many seconds."""
        if self._runs(timeout):
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout)

    def _runs(self, seconds):
        """Whether it still runs after so many seconds; it is never taken for another of its number."""
        if self._handle is not None and select.select([self._handle], [], [], seconds)[0]:
            os.close(self._handle)
            self._handle = None
        return self._handle is not None

    def send_signal(self, number):
        if self._runs(0):
            signal.pidfd_send_signal(self._handle, number)

    def kill(self):
        self.send_signal(signal.SIGKILL)


class Nursery:
    """The process that forks, for as long as this object is open."""

    def __init__(self, env):
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())], pass_fds=[theirs.fileno()], env=env,
                stdin=subprocess.DEVNULL,
            )  # fmt: skip

    def start(self, arguments, folder, env, stderr):
        """`attomaton` (or a program, where the first argument ends in .py) with these arguments; stderr is a file."""
        order = json.dumps([list(arguments), str(folder), env]).encode()
        reader, writer = os.pipe()
        try:
            socket.send_fds(self._socket, [order], [writer, stderr.fileno()])
        finally:
            os.close(writer)
        said, (handle,), _, _ = socket.recv_fds(self._socket, MOST, 1)
        return Lab(int(said), handle, open(reader, encoding="utf-8"))

    def close(self):
        self._socket.close()
        self._process.wait()


def served(orders):
    """Fork a process for every order; in that process return its command line, in this one nothing at the end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the tests, which then let this end
    while True:
        order, handles, _, _ = socket.recv_fds(orders, MOST, 2)
        if not order:
            return None
        pid = os.fork()
        if not pid:
            break
        handles.append(os.pidfd_open(pid))
        socket.send_fds(orders, [str(pid).encode()], handles[2:])
        for handle in handles:
            os.close(handle)
        with suppress(ChildProcessError):  # nobody asks how they ended
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
    signal.signal(signal.SIGINT, signal.default_int_handler)
    arguments, folder, env = json.loads(order)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(env)
    for handle, standard in zip(handles, (1, 2), strict=True):
        os.dup2(handle, standard)
        os.close(handle)
    # Streams keep what they have seen of their files, as whether one can go back in them.
    sys.stdout = sys.__stdout__ = renewed(sys.stdout)
    sys.stderr = sys.__stderr__ = renewed(sys.stderr)
    sys.path[0] = folder if not arguments[0].endswith(".py") else str(Path(arguments[0]).parent)
    return arguments


def renewed(stream):
    """The same stream to what is now its file."""
    return open(
        stream.fileno(), "w", encoding=stream.encoding, errors=stream.errors,
        buffering=1 if stream.line_buffering else -1, closefd=False,
    )  # fmt: skip


def prepare():
    """Import all that a lab imports before it answers, and draw no random number that two of them would share."""
    import gc
    import random

    gc.disable()
    import attomaton.cli.main
    import attomaton.lab.server  # noqa: F401

    gc.freeze()  # the forked ones look through none of it
    gc.enable()
    os.register_at_fork(after_in_child=random.seed)


def program():
    """Serve, and do in a forked process what is asked of it."""
    sys.path[0] = os.getcwd()  # nothing is to be found beside this file
    with closing(socket.socket(fileno=int(sys.argv[1]))) as orders:
        prepare()
        arguments = served(orders)
    if arguments is None:
        return
    if arguments[0].endswith(".py"):
        sys.argv = arguments
        runpy.run_path(arguments[0], run_name="__main__")
    else:
        sys.argv = ["attomaton", *arguments]
        runpy.run_module("attomaton", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    program()
