"""Work in the background: one at a time for one key, with progress, a stop, and errors kept."""

import threading

from attomaton.errors import DataError
from attomaton.lab.jobs import DONE, FAILED, RUNNING, STOPPED, Jobs


def test_the_same_work_is_joined_not_repeated():
    jobs, go, count = Jobs(), threading.Event(), []

    def work(job):
        count.append(1)
        go.wait(120.0)
        return "done"

    first, second = jobs.start("k", "t", work), jobs.start("k", "t", work)
    assert first is second
    assert jobs.running() == [first]
    go.set()
    assert first.wait(120.0)
    assert (first.state, first.result, count) == (DONE, "done", [1])
    assert jobs.start("k", "t", work) is not first


def test_a_stop_ends_the_work_at_its_next_breath():
    jobs, begun = Jobs(), threading.Event()

    def work(job):
        for i in range(1_000_000):
            job.progress(i, 1_000_000, "still")
            begun.set()
            threading.Event().wait(0.001)

    job = jobs.start("k", "t", work)
    assert begun.wait(120.0)
    assert job.state == RUNNING
    job.stop()
    assert job.wait(120.0)
    assert job.state == STOPPED
    assert 0 < job.share < 1


def test_work_that_keeps_what_it_has_on_a_stop_is_done():
    def work(job):
        try:
            while True:
                job.progress(1, 2, "loss 0.5")
        except KeyboardInterrupt:
            return "half"

    job = Jobs().start("k", "t", work)
    job.stop()
    assert job.wait(120.0)
    assert (job.state, job.result) == (DONE, "half")


def test_errors_are_kept_in_words(capsys):
    jobs = Jobs()

    def ours(job):
        raise DataError("row 3 is empty.")

    def other(job):
        raise ZeroDivisionError("by zero")

    for work, said in ((ours, "row 3 is empty."), (other, "ZeroDivisionError: by zero")):
        job = jobs.start(said, "t", work)
        assert job.wait(120.0)
        assert (job.state, job.error) == (FAILED, said)


def test_at_the_end_everything_is_asked_to_stop():
    jobs = Jobs()

    def work(job):
        while True:
            job.progress(0, 1)
            threading.Event().wait(0.001)

    started = [jobs.start(str(i), "t", work) for i in range(3)]
    jobs.stop()
    assert [job.state for job in started] == [STOPPED] * 3
