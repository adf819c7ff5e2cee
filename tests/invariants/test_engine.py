"""Where work runs must not matter: tasks are given out once each, within memory, whatever dies."""

import numpy as np
from hypothesis import strategies as st
from tests.invariants.harness import holds_for, refuted
from tests.invariants.strategies import seeds

from attomaton.engine import tasks as room
from attomaton.engine.tasks import ATTEMPTS, Backlog, Task, WorkerError

sizes = st.lists(st.integers(0, 9), max_size=12)


def worked(backlog, rng, deaths):
    """Workers that take what they get, and finish or die in any order; what was done, and what ran at a time."""
    running, done, together = [], [], []
    while backlog:
        while rng.random() < 0.7 or not running:
            task = backlog.take()
            if task is None:
                break
            running.append(task)
        together.append(list(running))
        task = running.pop(rng.integers(len(running)))
        if deaths and rng.random() < 0.3:
            deaths -= 1
            backlog.lost(task.number)
        else:
            backlog.finish(task.number)
            done.append(task.number)
    return done, together


@holds_for(sizes, st.integers(1, 20), seeds, st.integers(0, ATTEMPTS - 1), st.booleans())
def test_every_task_is_done_once_within_memory(bytes_of, memory, seed, deaths, stream):
    """Fewer deaths than attempts lose nothing; what runs together fits, or runs alone."""
    tasks = [Task(i, None, size) for i, size in enumerate(bytes_of)]
    backlog = Backlog(iter(tasks) if stream else tasks, memory)
    done, together = worked(backlog, np.random.default_rng(seed), deaths)
    assert sorted(done) == list(range(len(tasks)))
    for running in together:
        assert len(running) == 1 or sum(task.bytes for task in running) <= memory


@holds_for(sizes.filter(len), st.integers(1, 20))
def test_a_task_whose_workers_die_is_given_up(bytes_of, memory):
    """After as many attempts as there are, and never before."""
    backlog = Backlog([Task(i, None, size) for i, size in enumerate(bytes_of)], memory)
    for attempt in range(1, ATTEMPTS + 1):
        task = backlog.take()
        try:
            backlog.lost(task.number)
            given_up = False
        except WorkerError:
            given_up = True
        assert given_up == (attempt == ATTEMPTS)


# Controls


def test_control_a_backlog_that_forgets_what_died(monkeypatch):
    monkeypatch.setattr(room.Backlog, "lost", room.Backlog.finish)
    refuted(test_every_task_is_done_once_within_memory)
