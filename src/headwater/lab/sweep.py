"""Runs many independent jobs on all cores or on a Dask cluster and returns their results in the order given.

A job is a module-level function and its arguments, both of which can be pickled. Seeds are arguments, never drawn here,
so the numbers do not depend on where the jobs run or how many run at a time.
"""

from __future__ import annotations

import importlib
import multiprocessing
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
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
    for done, (place, value) in enumerate(_run_unordered(jobs, settings), 1):
        results[place] = value
        progress(done, len(jobs), what)
    return results


def _run_unordered(jobs: Sequence[SweepJob], settings: LabSettings) -> Iterator[tuple[int, Any]]:
    """Yield the place and the result of each job as it ends."""
    processes = min(settings.process_count, len(jobs))
    if not settings.dask and processes <= 1:
        yield from ((place, job()) for place, job in enumerate(jobs))
        return
    with _open_dask(settings.dask) if settings.dask else _open_processes(processes) as executor:
        places: dict[Future[Any], int] = {executor.submit(job): place for place, job in enumerate(jobs)}
        try:
            for future in as_completed(places):
                yield places[future], future.result()
        finally:
            for future in places:  # after an error or Ctrl-C: jobs that have not begun are not run
                future.cancel()


def _open_processes(count: int) -> Executor:
    # forkserver: forking a process that has threads (the progress bar's) may hang.
    return ProcessPoolExecutor(count, mp_context=multiprocessing.get_context("forkserver"))


@contextmanager
def _open_dask(address: str) -> Iterator[Executor]:
    try:
        distributed: Any = importlib.import_module("distributed")
    except ImportError as error:
        raise SettingsError("--dask needs the extra: pip install 'headwater[dask]'.") from error
    try:
        client = distributed.Client(address, timeout="10s", set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise SettingsError(f"No Dask scheduler answers at {address}: {error}.") from error
    with client, client.get_executor(pure=False) as executor:  # pure=False: two jobs with equal arguments are two jobs
        yield executor
