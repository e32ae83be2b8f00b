"""Who computes the points of a sweep: processes of this machine, Dask or Ray.

An engine takes a task and numbers of points, and gives pairs of a number and a finding in any order, each
as soon as it is there. A point whose worker dies is computed again by another one.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from importlib import import_module
from queue import SimpleQueue
from threading import Lock
from typing import Any, TypeAlias

from . import _core
from ._errors import misused
from ._sweep import Answer, Task, computed
from ._worker import receive, send

Engine: TypeAlias = Callable[[Task, Sequence[int]], Iterator[tuple[int, Answer]]]

ATTEMPTS = 3
"""How often a point is given to a worker before its death is the finding."""


class _Process:
    """A worker of this machine, which is started anew when it has died."""

    def __init__(self, task: Task, memory: int | None) -> None:
        self._first = (task, memory)
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False
        # A sweep that stops must not meet a process that is about to start.
        self._starting = Lock()

    def _started(self) -> subprocess.Popen[bytes]:
        with self._starting:
            if self._closed:
                raise OSError("the sweep has stopped")
            if self._process is None:
                command = [sys.executable, "-m", "quincunx._worker"]
                pipe = subprocess.PIPE
                # Ctrl-C is for who started the sweep, who ends the workers.
                self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, start_new_session=True)
                assert self._process.stdin is not None
                send(self._process.stdin, self._first)
            return self._process

    def compute(self, point: int) -> Answer:
        """The finding of a point, or that the process has died of it."""
        code: int | None = None
        for _ in range(ATTEMPTS):
            try:
                process = self._started()
                assert process.stdin is not None and process.stdout is not None
                send(process.stdin, point)
                answer: Answer = receive(process.stdout)
                return answer
            except (EOFError, OSError):
                code = self._end()
        return Answer(_core.lost(f"its process ended {ATTEMPTS} times, with {code}"))

    def close(self) -> None:
        """Ends the process; none is started any more."""
        with self._starting:
            self._closed = True
        self._end()

    def _end(self) -> int | None:
        """Ends the process; what it ended with."""
        process, self._process = self._process, None
        if process is None:
            return None
        process.kill()
        for stream in (process.stdin, process.stdout):
            try:
                if stream is not None:
                    stream.close()
            except OSError:
                pass
        return process.wait()


def local(workers: int | None, memory: int | None) -> Engine:
    """Processes of this machine, each with so many bytes of memory at most."""
    count = workers or _processors()

    def run(task: Task, points: Sequence[int]) -> Iterator[tuple[int, Answer]]:
        processes = [_Process(task, memory) for _ in range(min(count, len(points)))]
        free: SimpleQueue[_Process] = SimpleQueue()
        for process in processes:
            free.put(process)

        def one(point: int) -> tuple[int, Answer]:
            process = free.get()
            try:
                return point, process.compute(point)
            finally:
                free.put(process)

        pool = ThreadPoolExecutor(max(len(processes), 1))
        try:
            for done in as_completed([pool.submit(one, point) for point in points]):
                yield done.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in processes:
                process.close()

    return run


def _processors() -> int:
    """As many as this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def dask_cluster(client: Any, workers: int | None) -> Engine:
    """A Dask cluster: that of a client, of the running one, or a local one."""

    def run(task: Task, points: Sequence[int]) -> Iterator[tuple[int, Answer]]:
        try:
            distributed: Any = import_module("dask.distributed")
        except ImportError:
            raise misused("dask.distributed is not installed", "pip install 'dask[distributed]'") from None
        own: list[Any] = []
        used = client
        if used is None:
            try:
                used = distributed.get_client()
            except ValueError:
                size = {"n_workers": workers or 2, "threads_per_worker": 1}
                cluster = distributed.LocalCluster(dashboard_address=None, **size)
                used = distributed.Client(cluster)
                own = [used, cluster]
        try:
            # Once to every worker, not with every point.
            shared = used.scatter(task, broadcast=True, hash=False)
            futures = {
                used.submit(computed, shared, point, pure=False, retries=ATTEMPTS): point for point in points
            }
            for future in distributed.as_completed(futures):
                yield futures[future], _answer(future.result)
        finally:
            for thing in own:
                thing.close()

    return run


def ray_cluster(workers: int | None) -> Engine:
    """A Ray cluster: the one that is connected, or a local one."""

    def run(task: Task, points: Sequence[int]) -> Iterator[tuple[int, Answer]]:
        try:
            ray: Any = import_module("ray")
        except ImportError:
            raise misused("ray is not installed", "pip install ray") from None
        own = not ray.is_initialized()
        if own:
            ray.init(num_cpus=workers or 2, include_dashboard=False, log_to_driver=False)
        try:
            shared = ray.put(task)
            remote = ray.remote(num_cpus=1, max_retries=ATTEMPTS)(computed)
            waiting = {remote.remote(shared, point): point for point in points}
            while waiting:
                done, _ = ray.wait(list(waiting), num_returns=1)
                for reference in done:
                    yield waiting.pop(reference), _answer(partial(ray.get, reference))
        finally:
            if own:
                ray.shutdown()

    return run


def _answer(result: Callable[[], Answer]) -> Answer:
    """What a worker has answered, or that it has died."""
    try:
        return result()
    except Exception as error:
        return Answer(_core.lost(f"its worker failed: {type(error).__name__}: {error}"))


def named(engine: Any, workers: int | None, memory: int | None) -> Engine:
    """The engine of a name, or of a client of Dask."""
    if engine == "local":
        return local(workers, memory)
    if memory is not None:
        raise misused("memory is that of the processes of this machine", "limit it where workers are started")
    if workers is not None and hasattr(engine, "scatter"):
        raise misused("a client of Dask has its own workers", "leave workers out")
    if engine == "dask" or hasattr(engine, "scatter"):
        return dask_cluster(None if engine == "dask" else engine, workers)
    if engine == "ray":
        return ray_cluster(workers)
    raise misused(f"no engine is {engine!r}", 'engines are "local", "dask", "ray" and a client of Dask')
