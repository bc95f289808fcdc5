"""Requests to all shards at once, which are repeated if a worker has died."""

from __future__ import annotations

import gc
import platform
import time
import weakref
from asyncio import CancelledError
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import numpy as np
from distributed import Client as RealClient
from distributed import KilledWorker, get_worker, wait
from distributed.client import FutureCancelledError, FuturesCancelledError
from distributed.comm.core import CommClosedError

from rslm.distributed.shard import ForgottenError, add, ask
from rslm.runtime.interrupts import current_interrupt, interrupted, raise_if_stopped
from rslm.runtime.log import logger
from rslm.runtime.version import __version__

BRANCHES = 8  # answers that are summed at a time
INLINE = 1 << 22  # bytes that all tasks of a request may carry; larger arrays are sent once, from worker to worker
MOST_REPAIRS = 20
POLL = 0.2  # seconds between two checks of the time limit while workers compute
PATIENCE = 60.0  # seconds to wait for a worker when all have died
LOST = (
    KilledWorker,
    CancelledError,
    FutureCancelledError,
    FuturesCancelledError,
    CommClosedError,
    TimeoutError,
    ForgottenError,
)

T = TypeVar("T")


class Known(Protocol):
    """A problem or a point, which is sent to the shards once and then referred to by name."""

    def send(self) -> object: ...

    def names(self) -> set[str]: ...


Client = Any  # distributed.Client, which is not fully annotated
Future = Any
Build = Callable[[Client, str], Future]  # makes the future of a shard, on the given worker if that is alive


class Cluster:
    """The shards of one data set on the workers of a client.

    Parameters
    ----------
    client : distributed.Client
    builds : list of functions
        builds[k] makes shard k.
    """

    def __init__(self, client: Client, builds: list[Build]) -> None:
        self.client, self.builds = client, builds
        self.questions = self.bytes_sent = self.bytes_received = 0
        workers = self.workers()
        self.shards = [build(client, workers[k % len(workers)]) for k, build in enumerate(builds)]
        self._homes = [[workers[k % len(workers)]] for k in range(len(builds))]
        self.asked: Any = None  # the solver of the last problem for which sums were requested
        self.known: weakref.WeakValueDictionary[str, Known] = weakref.WeakValueDictionary()
        self._repairing = False

    def workers(self) -> list[str]:
        """The addresses of the workers; waits for one if there are none."""
        began = time.monotonic()
        while not (found := sorted(self._identity())):
            if interrupted():  # Ctrl-C in a terminal ends the workers of a local cluster too
                raise KeyboardInterrupt
            if time.monotonic() > began + PATIENCE:
                raise ConnectionError(
                    f"all workers of {self.client.scheduler.address} are gone, and none joined in {PATIENCE:.0f} s. "
                    "Start workers and repeat the fit; with a checkpoint it continues from there."
                )
            time.sleep(0.2)
        return found

    def _identity(self) -> dict[str, Any]:
        found: dict[str, Any] = self.client.scheduler_info(n_workers=-1)["workers"]
        return found

    def wait(self) -> None:
        """Wait until all shards are built."""
        self.each("largest")

    def forget(self) -> None:
        """Free the memory of all problems and points on the shards, when a fit has ended."""
        self.asked = None
        gc.collect()  # exceptions from waiting for slow workers keep solvers alive through reference cycles
        alive = {name for known in list(self.known.values()) for name in known.names()}
        self.each("keep", alive)

    def each(self, question: str, *args: Any, own: list[tuple[Any, ...]] | None = None) -> list[Any]:
        """The answers of all shards; `own` has further arguments for each shard."""
        return self._persist(lambda: self._gathered(self._ask(question, args, own)))

    def total(self, question: str, *args: Any, own: list[tuple[Any, ...]] | None = None) -> Any:
        """The sum of all answers, by a tree of partial sums; `own` has further arguments for each shard."""

        def summed() -> Any:
            futures = self._ask(question, args, own)
            while len(futures) > BRANCHES:
                some = [futures[k : k + BRANCHES] for k in range(0, len(futures), BRANCHES)]
                futures = [self.client.submit(add, part, pure=False) for part in some]
            parts = self._gathered(futures)
            self.bytes_received += sum(_size(part) for part in parts)
            return add(parts)

        return self._persist(summed)

    def _gathered(self, futures: list[Future]) -> list[Any]:
        """The answers, unless the time limit ends the wait."""
        while True:
            raise_if_stopped()
            try:
                wait(futures, timeout=POLL)  # type: ignore[no-untyped-call]
            except TimeoutError:
                continue
            answers: list[Any] = self.client.gather(futures)
            return answers

    def _ask(self, question: str, args: tuple[Any, ...], own: list[tuple[Any, ...]] | None) -> list[Future]:
        self.questions += 1
        seconds = current_interrupt().left()
        size = sum(_size(arg) for arg in args)
        if size * len(self.shards) > INLINE:
            args = tuple(self.client.scatter(a, hash=False) if isinstance(a, np.ndarray) else a for a in args)
            self.bytes_sent += size
        else:
            self.bytes_sent += size * len(self.shards)
        return [
            self.client.submit(
                ask,
                shard,
                question,
                seconds,
                *args,
                *(own[k] if own is not None else ()),
                pure=False,
                workers=self._homes[k],
                allow_other_workers=True,
            )
            for k, shard in enumerate(self.shards)
        ]

    # ---- lost workers --------------------------------------------------------------------------------------------

    def _persist(self, attempt: Callable[[], T]) -> T:
        """Repeat a request until it succeeds: shards of a worker that has died are rebuilt on another one."""
        if self._repairing:  # the outer call counts the attempts
            return attempt()
        for count in range(MOST_REPAIRS):
            try:
                if count > 0:
                    self._repair()
                return attempt()
            except LOST as failure:
                self._still_there(failure)
                logger.info("a worker is lost (%s); its columns move to another one", type(failure).__name__)
                last = failure
        raise RuntimeError(f"workers were lost {MOST_REPAIRS} times in a row; the last time: {last!r}") from last

    def _still_there(self, failure: BaseException) -> None:
        """Raise an error that says so if the scheduler is gone."""
        address = self.client.scheduler.address if self.client.scheduler is not None else "?"
        try:
            if self.client.status != "running":
                raise OSError(f"the client is {self.client.status}")
            self.client.sync(self.client.scheduler.identity, n_workers=0)
        except (OSError, TimeoutError, AttributeError) as gone:
            raise ConnectionError(
                f"the Dask scheduler at {address} is gone ({gone}). Start it and its workers again, and repeat the "
                "fit; with a checkpoint it continues from there."
            ) from failure

    def _repair(self) -> None:
        workers = self.workers()
        for k, shard in enumerate(self.shards):
            if shard.status in ("lost", "cancelled", "error"):
                self.shards[k] = self.builds[k](self.client, workers[k % len(workers)])
        where = self.client.who_has(self.shards)
        self._homes = [list(where.get(shard.key, workers)) or workers for shard in self.shards]
        self._repairing = True
        try:
            for known in list(self.known.values()):  # problems come before their points
                known.send()
        finally:
            self._repairing = False


def check_versions(client: Client) -> None:
    """Raise an error if a worker has another version of the library, or none."""
    if not isinstance(client, RealClient) or client.asynchronous or client.status != "running":
        wanted = "a distributed.Client that is connected and not asynchronous, such as Client(address)"
        raise TypeError(f"client must be {wanted}; got {client!r}")
    run: Any = client.run
    found = run(_versions, on_error="return")
    here = _versions()
    if not found:
        raise RuntimeError("the cluster has no workers; start some with: dask worker ADDRESS")
    gone = OSError  # a worker that dies now is handled by the next request
    wrong = {a: versions for a, versions in found.items() if versions != here and not isinstance(versions, gone)}
    if wrong:
        listed = "; ".join(f"{address}: {_shown(versions)}" for address, versions in list(wrong.items())[:5])
        raise RuntimeError(
            f"{len(wrong)} of {len(found)} workers differ from this process, which has {_shown(here)}. {listed}. "
            "Install the same versions everywhere."
        )


def _versions() -> tuple[str, str]:
    return __version__, ".".join(platform.python_version_tuple()[:2])


def _shown(versions: tuple[str, str] | BaseException) -> str:
    if isinstance(versions, BaseException):
        return f"no usable rslm ({type(versions).__name__}: {versions})"
    return f"rslm {versions[0]} on Python {versions[1]}"


def threads_here() -> int:
    """The number of threads of the worker on which a task runs."""
    return int(get_worker().state.nthreads)


def _size(value: Any) -> int:
    if isinstance(value, tuple):
        return sum(_size(v) for v in value)
    return int(value.nbytes) if isinstance(value, np.ndarray) else 0
