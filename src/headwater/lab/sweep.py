"""Runs many independent jobs on all cores or on a Dask cluster and returns their results in the order given.

A job is a module-level function and its arguments, both of which can be pickled. Seeds are arguments, never drawn here,
so the numbers do not depend on where the jobs run or how many run at a time.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import re
import signal
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from headwater.errors import SettingsError
from headwater.lab.experiment import LabSettings, Progress, ignore_progress

Key = TypeVar("Key")


@dataclass(frozen=True, slots=True)
class SweepJob:
    """One function call to make in any process."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    options: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self) -> Any:
        return self.function(*self.arguments, **self.options)


def run_grid(
    function: Callable[..., Any],
    keys: Sequence[Key],
    seeds: int,
    given: LabSettings,
    progress: Progress = ignore_progress,
    what: str = "simulations",
    /,
    **shared: Any,
) -> dict[Key, list[Any]]:
    """Call `function(*key, seed, **shared)` for every key and seed; return each key's results in order of the seeds.

    >>> run_grid(pow, [2, 3], 3, LabSettings(jobs=1))
    {2: [1, 2, 4], 3: [1, 3, 9]}
    """
    # Seed by seed, so that a process that caches a world uses it for all keys.
    jobs = [SweepJob(function, (*_arguments(key), seed), shared) for seed in range(seeds) for key in keys]
    results = run_jobs(jobs, given, progress, what)
    return {key: results[place :: len(keys)] for place, key in enumerate(keys)}


def run_each(
    function: Callable[..., Any],
    keys: Sequence[Key],
    given: LabSettings,
    progress: Progress = ignore_progress,
    what: str = "simulations",
    /,
    **shared: Any,
) -> dict[Key, Any]:
    """Call `function(*key, **shared)` for every key; return the results by key."""
    jobs = [SweepJob(function, _arguments(key), shared) for key in keys]
    return dict(zip(keys, run_jobs(jobs, given, progress, what), strict=True))


def _arguments(key: Any) -> tuple[Any, ...]:
    return key if isinstance(key, tuple) else (key,)


def run_jobs(
    jobs: Sequence[SweepJob],
    settings: LabSettings,
    progress: Progress = ignore_progress,
    what: str = "simulations",
) -> list[Any]:
    """Run all jobs; return their results in the order of the jobs."""
    results: list[Any] = [None] * len(jobs)
    progress(0, len(jobs), what)
    with closing(_run_unordered(jobs, settings)) as ended:
        for done, (place, value) in enumerate(ended, 1):
            results[place] = value
            progress(done, len(jobs), what)
    return results


def _run_unordered(jobs: Sequence[SweepJob], settings: LabSettings) -> Generator[tuple[int, Any]]:
    """Yield the place and the result of each job as it ends."""
    processes = min(settings.process_count, len(jobs))
    if not settings.dask and processes <= 1:
        yield from ((place, job()) for place, job in enumerate(jobs))
        return
    with _open_dask(settings.dask) if settings.dask else _open_processes(processes) as executor:
        places: dict[Future[Any], int] = {executor.submit(job): place for place, job in enumerate(jobs)}
        for future in as_completed(places):
            yield places[future], future.result()


@contextmanager
def _open_processes(count: int) -> Iterator[Executor]:
    """Open processes for jobs. An error or Ctrl-C ends them in the middle of a job."""
    others = set(multiprocessing.active_children())
    # forkserver: forking a process that has threads (the progress bar's) may hang.
    context = multiprocessing.get_context("forkserver")
    with ProcessPoolExecutor(count, mp_context=context, initializer=_follow_parent) as executor:
        try:
            yield executor
        except BaseException:
            for process in set(multiprocessing.active_children()) - others:
                process.terminate()
            raise


def _follow_parent() -> None:
    """Leave Ctrl-C to the parent, which a terminal sends to all, and end with it if it is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_exit_after_parent, daemon=True).start()


def _exit_after_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@contextmanager
def _open_dask(address: str) -> Iterator[Executor]:
    # Dask would also complain about its client of a wrong address when that is collected.
    if not re.fullmatch(r"inproc://.+|(\w+://)?[^/]+:\d+", address):
        raise SettingsError(f"--dask must be like tcp://127.0.0.1:8786, not “{address}”.")
    try:
        distributed: Any = importlib.import_module("distributed")
    except ImportError as error:
        raise SettingsError("--dask needs the extra: pip install 'headwater[dask]'.") from error
    try:
        client = distributed.Client(address, timeout="10s", set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise SettingsError(f"No Dask scheduler answers at {address}: {error}.") from error
    with client, client.get_executor(pure=False) as executor:  # pure=False: two jobs with equal arguments are two jobs
        try:
            yield executor
        except BaseException:
            executor.shutdown(wait=False)  # cancels the jobs
            raise
