"""A sweep returns results in the order of its jobs, wherever they ran."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.errors import SettingsError, TraceError
from headwater.lab.experiment import LabSettings
from headwater.lab.sweep import SweepJob, run_jobs


def slow_first(place: int, count: int) -> tuple[int, int]:
    time.sleep(0.02 * (count - place))
    return place, os.getpid()


def refuse(place: int) -> int:
    raise TraceError(f"job {place} cannot run.")


def test_results_keep_the_order_of_the_jobs_although_the_last_ends_first() -> None:
    seen: list[tuple[int, int]] = []
    jobs = [SweepJob(slow_first, (place, 6)) for place in range(6)]
    results = run_jobs(jobs, LabSettings(jobs=2), lambda done, total, what: seen.append((done, total)))
    assert [place for place, _ in results] == list(range(6))
    assert os.getpid() not in {pid for _, pid in results}
    assert seen == [(done, 6) for done in range(7)]


def test_one_process_runs_jobs_in_the_caller() -> None:
    results = run_jobs([SweepJob(slow_first, (place, 3)) for place in range(3)], LabSettings(jobs=1))
    assert results == [(place, os.getpid()) for place in range(3)]


def test_the_error_of_a_job_reaches_the_caller() -> None:
    with pytest.raises(TraceError, match=r"job . cannot run\."):
        run_jobs([SweepJob(refuse, (place,)) for place in range(4)], LabSettings(jobs=2))


def refuse_or_note(place: int, folder: str) -> None:
    if place == 0:
        raise TraceError("job 0 cannot run.")
    time.sleep(0.05)
    (Path(folder) / str(place)).touch()


def test_jobs_that_have_not_begun_are_cancelled_when_one_fails(tmp_path: Path) -> None:
    with pytest.raises(TraceError):
        run_jobs([SweepJob(refuse_or_note, (place, str(tmp_path))) for place in range(200)], LabSettings(jobs=2))
    assert len(list(tmp_path.iterdir())) < 150


def note_and_wait(folder: str) -> None:
    (Path(folder) / str(os.getpid())).touch()
    time.sleep(300)


def run_long_jobs(folder: str) -> None:
    try:
        run_jobs([SweepJob(note_and_wait, (folder,)) for _ in range(4)], LabSettings(jobs=2))
    except KeyboardInterrupt:
        sys.exit(130)


@pytest.mark.parametrize(
    ("number", "send", "status"),
    [(signal.SIGINT, os.kill, 130), (signal.SIGINT, os.killpg, 130), (signal.SIGTERM, os.kill, -signal.SIGTERM)],
    ids=["SIGINT to the parent", "Ctrl-C in a terminal", "SIGTERM to the parent"],
)
def test_a_signal_ends_a_run_without_waiting_for_its_jobs(
    number: signal.Signals, send: Callable[[int, int], None], status: int, tmp_path: Path
) -> None:
    code = f"from {__name__} import run_long_jobs; run_long_jobs({str(tmp_path)!r})"
    path = os.pathsep.join(filter(None, sys.path))
    command = [sys.executable, "-c", code]
    environment = os.environ | {"PYTHONPATH": path}
    with subprocess.Popen(command, env=environment, start_new_session=True, stderr=subprocess.PIPE, text=True) as run:
        try:
            while len(list(tmp_path.iterdir())) < 2:
                assert run.poll() is None
                time.sleep(0.02)
            send(run.pid, number)
            _, errors = run.communicate(timeout=60)  # a job takes 300 s; every process holds the pipe of errors
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(run.pid, signal.SIGKILL)
    assert run.returncode == status
    assert "Traceback" not in errors


def square(value: int) -> int:
    return value * value


def test_a_dask_cluster_gives_the_same_results_in_the_same_order() -> None:
    distributed = pytest.importorskip("distributed", reason="the extra headwater[dask] is not installed")
    jobs = [SweepJob(square, (value,)) for value in (3, 1, 3, 2)]
    size = {"n_workers": 1, "threads_per_worker": 2, "processes": False, "dashboard_address": None}
    with distributed.LocalCluster(**size) as cluster:
        assert run_jobs(jobs, LabSettings(dask=cluster.scheduler_address)) == [9, 1, 9, 4]


def test_an_invalid_dask_address_is_refused_with_a_sentence() -> None:
    with pytest.raises(SettingsError, match=r"--dask must be like tcp://127\.0\.0\.1:8786, not “nowhere”"):
        run_jobs([SweepJob(square, (1,))], LabSettings(dask="nowhere"))
