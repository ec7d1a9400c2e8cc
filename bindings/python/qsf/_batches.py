"""The answers of all conversations of a model, computed together. A thread that waits for its answer's
next piece computes a batch for all answers, unless another thread already does. So the package has no
thread of its own, and answers of several threads share batches. The engine decides how many rows each
answer has in a batch, and which conversation leaves memory first.
SPDX-License-Identifier: MIT
"""
from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from . import _native, _pieces
from ._native import FULL, OK, PENDING, ffi, lib
from .errors import QsfError, error

# Pieces of an answer that another thread may compute before they are read.
AHEAD = 4
# A call of the library begins no batch after this many microseconds. A stream's pieces that come
# within four milliseconds look simultaneous; those of a whole answer are not shown.
STREAM_US, WHOLE_US = 4000, 20000


class Talk:
    """A conversation in the engine: a sequence, which it may leave to others, and what it holds."""

    def __init__(self) -> None:
        self.handle = 0
        self.seated = False
        self.uses: list[tuple[int, float]] = []         # its adapters and their scales
        self.text = ""                                  # its last prompt
        self.used = 0
        self.busy = False                               # an answer of it is not finished


class Turn(Protocol):
    """An answer under way."""

    talk: Talk
    handle: int
    pieces: deque[Any]
    failed: BaseException | None
    ended: bool
    whole: bool                         # the caller reads the answer, not its pieces
    flags: int                          # of qsf_python_answer
    n_taken: int                        # pieces

    def take(self, news: list[Any], number: int) -> None:
        """Makes pieces of what the library reports of it, once for each number."""


class Batches:
    def __init__(self, model: int, context: int, parallel: int) -> None:
        # parallel: most answers in a batch; 0: of a model without weights
        self.model, self.context, self.parallel = model, context, parallel
        self.closed = False
        self._forks = _native.forks()
        # Not a Condition, which an interrupt may leave without its lock, or with it.
        self._lock, self._waiters = threading.Lock(), list[Any]()
        self._owner: int | None = None                  # the thread that uses the context
        self._jobs: set[int] = set()                    # threads that wait for that, to begin or end
        self._turns: list[Turn] = []                    # that have begun and not ended
        self._held: set[int] = set()                    # talks (id) that have left for others
        self._batch: list[Turn] | None = None           # with rows in the unfinished batch
        self._untaken: list[Turn] = []                  # of the last one, whose pieces are not read yet
        self._news = _pieces.News()                     # those pieces
        self._talks: dict[int, Talk] = {}               # by handle
        self._dropped: deque[Callable[[], None]] = deque()

    # ---- one thread at a time ----

    def check(self) -> None:
        if self.closed:
            raise error("CLOSED", "the model is closed")
        if self._forks != _native.forks():
            raise error("FORKED", "the model was loaded before this process was forked, and its threads do "
                        'not exist here; load it in each process, or use the start method "spawn"')

    def need_weights(self) -> None:
        if not self.parallel:
            raise error("ARGUMENT", "the model was loaded with vocab_only: it has its tokenizer, no weights")

    @property
    def is_foreign(self) -> bool:
        """Whether this is a fork of the process that has loaded the model."""
        return self._forks != _native.forks()

    def later(self, job: Callable[[], None]) -> None:
        """For finalizers, which may run at any point of any thread: runs before the next use."""
        self._dropped.append(job)

    @contextmanager
    def alone(self, finished: bool = True) -> Iterator[None]:
        """While no batch is computed by another thread. finished: nor has one been left in the middle,
        by an interrupt."""
        self.check()
        try:
            try:
                self._jobs.add(threading.get_ident())
                self._news.hurry(True)
                while not self._take_over(self._is_busy):
                    pass
            finally:
                self._jobs.discard(threading.get_ident())
                self._news.hurry(bool(self._jobs))
                if self._owner != threading.get_ident():
                    with self._lock:
                        self._wake()                    # those that waited for this job
            self.check()
            self._tidy()
            while finished and (self._batch or self._untaken):
                self._resume()
            yield
        finally:
            self._leave()

    def _is_busy(self) -> bool:
        """A thread that is the owner here was interrupted while it left."""
        return self._owner not in (None, threading.get_ident())

    def _must_wait(self) -> bool:
        return self._is_busy() or bool(self._jobs - {threading.get_ident()})

    def _leave(self) -> None:
        """If this thread uses the context: it does not any more."""
        if self._owner == threading.get_ident():
            with self._lock:
                self._owner = None
                self._wake()

    def _wake(self) -> None:
        while self._waiters:
            self._waiters.pop().release()

    def _take_over(self, is_busy: Callable[[], bool], has_news: Callable[[], bool] = lambda: False) -> bool:
        """This thread uses the context, if none does; otherwise waits until that may have changed, unless
        there are news already."""
        waiter = threading.Lock()
        waiter.acquire()
        with self._lock:
            if not is_busy():
                self._owner = threading.get_ident()
                return True
            if has_news():
                return False
            self._waiters.append(waiter)
        waiter.acquire()
        return False

    def _tidy(self) -> None:
        while self._dropped:
            self._dropped.popleft()()

    # ---- answers ----

    def begin(self, turn: Turn) -> None:
        """While alone: the answer takes part in batches from now on."""
        self._turns.append(turn)

    def end(self, turn: Turn) -> None:
        """While alone: it does not any more, and its handle is freed."""
        if turn in self._turns:
            self._turns.remove(turn)
        self._held.clear()
        turn.ended = True
        if turn.handle:
            lib.qsf_flat_free(turn.handle)
            turn.handle = 0

    def piece(self, turn: Turn) -> Any:
        """The next piece of an answer, or its error."""
        while True:
            self.check()
            try:
                ended, failed = turn.ended, turn.failed     # before its pieces: others may add the last
                if turn.pieces:
                    return turn.pieces.popleft()
                if failed:
                    raise failed
                if ended:
                    self.check()            # all answers of a closed model have ended
                    raise error("CANCELLED", "the answer was ended")
                has_news = lambda: bool(turn.pieces or turn.failed or turn.ended)       # noqa: E731
                if not self._take_over(self._must_wait, has_news):
                    continue
                self._tidy()
                if not turn.ended:
                    self._round(turn)
            finally:
                self._leave()

    def _round(self, first: Turn) -> None:
        if self._batch is None and not self._untaken:
            self._news.clear()                          # what an interrupt has left is taken
            turns = [turn for turn in self._turns if len(turn.pieces) < AHEAD and not turn.failed]
            turns = [turn for turn in turns if id(turn.talk) not in self._held]
            if not turns:
                self._held.clear()
                turns = [first]
            self._batch = self._seated(turns[: self.parallel])          # those that began first
            self._step()
        else:
            self._resume()

    def _resume(self) -> None:
        """After an interrupt, which may have come before, in or after the last step of the batch."""
        self._take()
        if self._batch and self._news:                  # so it was after the last step
            self._untaken, self._batch = self._batch, None
            self._take()
            return
        self._step()

    def _seated(self, turns: list[Turn]) -> list[Turn]:
        """Those whose conversations have, or get, a sequence."""
        for turn in turns:
            if turn.talk.seated:
                continue
            try:
                others = [one for one in turns if one.talk.seated]
                if not self.seat(turn.talk, others):
                    self._held.add(id(turn.talk))
            except QsfError as failed:
                turn.failed = failed
        return [turn for turn in turns if turn.talk.seated and not turn.failed]

    def _step(self) -> None:
        """Computes one batch, and reads its pieces. An interrupt may leave it at any point."""
        batch = [turn for turn in self._batch or [] if not turn.ended and not turn.failed]
        if not batch:
            self._batch = None
            return
        more = min(0 if not turn.n_taken else WHOLE_US if turn.whole else STREAM_US for turn in batch)
        asked = [(turn.handle, turn.flags | (_pieces.WHOLE if turn.whole else 0)) for turn in batch]
        while (status := self._news.run(self.context, asked, more)) == PENDING:
            self.check()
        if status == FULL and self.evict(0):
            self._news.clear()
            self._batch = None
            self._held.update(id(turn.talk) for turn in batch if not turn.talk.seated)
            return
        self._untaken, self._batch = batch, None
        self._take()

    def _take(self) -> None:
        if not self._untaken:
            return
        news = self._news.by_answer()
        failed = self._news.failed(self.context)
        while self._untaken:
            turn = self._untaken[-1]
            if not turn.ended and not turn.failed:
                try:
                    turn.take(news.get(turn.handle, []), self._news.number)
                    turn.failed = None if turn.ended else failed
                except QsfError as failed:
                    turn.failed = failed
                    lib.qsf_flat_cancel(turn.handle)    # what it has not read would hold up the others
            if turn in self._turns and (turn.ended or turn.failed):
                self._turns.remove(turn)
                self._held.clear()
            self._untaken.pop()
        self._news.clear()

    # ---- who is in memory ----

    def seat(self, talk: Talk, others: list[Turn] | None = None) -> bool:
        """While alone: the conversation gets a sequence. Not if only those of others could leave;
        then False."""
        self.need_weights()
        while True:
            if not talk.handle:
                handle = lib.qsf_flat_conversation_new(self.context, ffi.NULL)
                status = lib.qsf_flat_status(handle) if handle else FULL
                if status == OK:
                    talk.handle = handle
                    self._talks[handle] = talk
                elif handle:
                    try:
                        if status != FULL:
                            _native.check(status, handle)
                    finally:
                        lib.qsf_flat_free(handle)
            else:
                status = lib.qsf_flat_conversation_seat(talk.handle)
                if status != FULL:
                    _native.check(status, talk.handle)
            if status == OK:
                talk.seated = True
                return True
            if not self.evict(talk.handle, others or []):
                if others:
                    return False
                raise error("FULL", "no sequence is free: all conversations compute")

    def evict(self, but: int, others: list[Turn] | None = None) -> bool:
        """While alone: the conversation leaves that the engine names, except `but`, unless it is one of
        others."""
        talk = self._talks.get(lib.qsf_flat_oldest(self.context, but))
        if not talk or not talk.seated or any(turn.talk is talk for turn in others or []):
            return False
        talk.seated = False
        talk.text = ""
        _native.check(lib.qsf_flat_conversation_leave(talk.handle), talk.handle)
        return True

    def part(self, talk: Talk) -> None:
        """While alone: nothing uses the conversation any more; its answer ends."""
        for turn in [turn for turn in self._turns if turn.talk is talk]:
            self.end(turn)
        self._talks.pop(talk.handle, None)
        if talk.handle:
            lib.qsf_flat_free(talk.handle)
        talk.handle, talk.seated = 0, False

    def adapt(self, talk: Talk, uses: list[tuple[int, float]]) -> None:
        """While alone: what the conversation computes next uses these adapters."""
        if uses == talk.uses:
            return
        places = ffi.new("uint32_t[]", [place for place, _ in uses])
        scales = ffi.new("float[]", [scale for _, scale in uses])
        _native.check(lib.qsf_flat_conversation_adapt(talk.handle, places, scales, len(uses)), talk.handle)
        talk.uses = uses

    # ---- the end ----

    def close(self) -> None:
        if self.closed or self.is_foreign:
            return
        self.closed = True
        self._news.hurry(True)
        with self._lock:
            self._wake()
        while not self._take_over(self._is_busy):
            pass
        try:
            for turn in list(self._turns):
                self.end(turn)
            self._tidy()
            for talk in list(self._talks.values()):
                self.part(talk)
            lib.qsf_flat_free(self.context)
            self._news.free()
        finally:
            self._leave()
