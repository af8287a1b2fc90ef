"""Runs many independent jobs on all cores, or on a Dask cluster, and returns their results in the order given.

A job is a module-level function and its arguments, both of which can be pickled. Seeds are among the arguments, never
drawn here, so the numbers do not depend on where or how many at a time the jobs run.
"""

from __future__ import annotations

import importlib
import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any

from headwater.errors import SettingsError
from headwater.lab.experiment import LabSettings, Progress, ignore_progress


@dataclass(frozen=True, slots=True)
class SweepJob:
    """One call to make somewhere else."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]

    def __call__(self) -> Any:
        return self.function(*self.arguments)


def run_jobs(
    jobs: Sequence[SweepJob], on: LabSettings, progress: Progress = ignore_progress, what: str = "simulations"
) -> list[Any]:
    """The results of all jobs, in their order, whatever ran them."""
    results: list[Any] = [None] * len(jobs)
    progress(0, len(jobs), what)
    for done, (place, value) in enumerate(_run_unordered(jobs, on), 1):
        results[place] = value
        progress(done, len(jobs), what)
    return results


def _run_unordered(jobs: Sequence[SweepJob], on: LabSettings) -> Iterator[tuple[int, Any]]:
    if on.dask:
        yield from _run_on_dask(jobs, on.dask)
    elif min(on.process_count, len(jobs)) <= 1:
        for place, job in enumerate(jobs):
            yield place, job()
    else:
        # forkserver: a fork of a process that has threads (rich's progress bar) may hang.
        context = multiprocessing.get_context("forkserver")
        with ProcessPoolExecutor(min(on.process_count, len(jobs)), mp_context=context) as pool:
            places: dict[Future[Any], int] = {pool.submit(job): place for place, job in enumerate(jobs)}
            try:
                for future in as_completed(places):
                    yield places[future], future.result()
            except BaseException:
                # Waits for what is being computed; leaving the block would call it again and forget to cancel the rest.
                pool.shutdown(cancel_futures=True)
                raise


def _run_on_dask(jobs: Sequence[SweepJob], address: str) -> Iterator[tuple[int, Any]]:
    try:
        distributed: Any = importlib.import_module("distributed")
    except ImportError as error:
        raise SettingsError("--dask needs the extra: pip install 'headwater[dask]'.") from error
    try:
        client = distributed.Client(address, timeout="10s", set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise SettingsError(f"No Dask scheduler answers at {address}: {error}.") from error
    with client:
        # pure=False: two jobs with equal arguments are two jobs.
        futures = [client.submit(job, pure=False) for job in jobs]
        places = {future.key: place for place, future in enumerate(futures)}
        for future, value in distributed.as_completed(futures, loop=client.loop, with_results=True):
            yield places[future.key], value
