"""Results of a sweep come back in the order of its jobs, whatever ran them."""

from __future__ import annotations

import os
import time

import pytest

from headwater.errors import TraceError
from headwater.lab.experiments.base import LabSettings
from headwater.lab.sweep import Job, run_all


def slow_first(place: int, count: int) -> tuple[int, int]:
    time.sleep(0.02 * (count - place))
    return place, os.getpid()


def refuse(place: int) -> int:
    raise TraceError(f"job {place} cannot run.")


def test_results_keep_the_order_of_the_jobs_although_the_last_ends_first() -> None:
    seen: list[tuple[int, int]] = []
    jobs = [Job(slow_first, (place, 6)) for place in range(6)]
    results = run_all(jobs, LabSettings(jobs=2), lambda done, total, what: seen.append((done, total)))
    assert [place for place, _ in results] == list(range(6))
    assert os.getpid() not in {pid for _, pid in results}
    assert seen == [(done, 6) for done in range(7)]


def test_one_process_is_the_caller_itself() -> None:
    results = run_all([Job(slow_first, (place, 3)) for place in range(3)], LabSettings(jobs=1))
    assert results == [(place, os.getpid()) for place in range(3)]


def test_the_error_of_a_job_reaches_the_caller() -> None:
    with pytest.raises(TraceError, match=r"job . cannot run\."):
        run_all([Job(refuse, (place,)) for place in range(4)], LabSettings(jobs=2))
