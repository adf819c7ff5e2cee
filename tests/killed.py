"""Programs that end themselves by SIGKILL at a known point of their work, so that no test has to catch them there."""

KILLED = """
import itertools, multiprocessing, os, signal
from importlib import import_module

def kill_after(times, module, owner, name):
    owner = getattr(import_module(module), owner)
    real, told = getattr(owner, name), itertools.count(1)
    def kill(*given):
        real(*given)
        if next(told) == times:
            print(len(multiprocessing.active_children()), "workers", flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
    setattr(owner, name, kill)

kill_after({times}, {module!r}, {owner!r}, {name!r})
"""


def killed_after(times: int, module: str, owner: str, name: str) -> str:
    """Code to run before a program: it ends once a method has been called, and has returned, so many times."""
    return KILLED.format(times=times, module=module, owner=owner, name=name)
