"""Answers while they are generated: the iterator, and the same for asyncio.
SPDX-License-Identifier: MIT
"""
from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any

from ._answer import Answer, Asked, EngineAnswer, FinishReason, Logprob, Piece, ToolCall, Usage
from ._batches import Batches, Talk
from ._messages import json_of
from .errors import QsfError, error

if TYPE_CHECKING:
    import asyncio
    from concurrent.futures import Executor


class Stream(Iterator[Piece]):
    """The pieces of an answer, one for each token. After the last one, answer is the whole. Leaving the
    loop, close() or the end of a with block ends it."""

    def __init__(self, batches: Batches, asked: Asked, claim: Callable[[str], Talk],
                 messages: list[dict[str, Any]], functions: dict[str, Callable[..., Any]],
                 done: Callable[[Answer], None] | None = None) -> None:
        self._batches, self._asked, self._claim = batches, asked, claim
        self._talk: Talk | None = None
        self._messages, self._functions, self._done = messages, functions, done
        self._turn: EngineAnswer | None = None
        self._rounds = asked.options.get("max_tool_rounds", 8) if functions else 0
        self._new: list[dict[str, Any]] = []            # messages of this answer
        self._over, self._whole = False, False
        self._tally = Tally()
        self.answer: Answer | None = None
        self.resolve: Callable[[Any], Any] = _not_awaitable
        self.parse: Callable[[str], Any] = lambda text: None

    def start(self) -> Stream:
        """Begins it, unless it has begun."""
        if self._turn is None and not self._over:
            self._tally.begin()
            prompt = self._asked.prompt
            talk = self._talk
            if talk is None:
                text = prompt if isinstance(prompt, str) else ",".join(map(str, prompt))
                self._talk = talk = self._claim(text)
            self._turn = turn = EngineAnswer(self._batches, talk, self._asked)
            try:
                with self._batches.alone():
                    if self._over:              # close() came before it, in another thread
                        raise error("CANCELLED", "the answer was ended before it began")
                    turn.begin()
            except BaseException:
                self.close()
                raise
        return self

    def __iter__(self) -> Stream:
        return self

    def __next__(self) -> Piece:
        if self._over:
            raise StopIteration
        try:
            return self._next()
        except BaseException:
            self.close()
            raise

    def _next(self) -> Piece:
        while True:
            turn = self.start()._turn
            if turn is None:                    # another thread has closed it
                raise error("CANCELLED", "the answer was ended")
            turn.whole = self._whole
            part = self._batches.piece(turn)
            self._tally.take(part)
            text, end = part.text, part.end
            if end:
                again = self._end_turn(turn, end)
                if not again:
                    return Piece(text, part.reasoning, tuple(part.calls), part.logprob, part.token,
                                 self.answer)
            return Piece(text, part.reasoning, tuple(part.calls), part.logprob, part.token)

    def ready(self) -> Piece | None:
        """The next piece, if it is there already and is not the last one: never waits."""
        pieces = self._turn.pieces if self._turn and not self._over else ()
        if not pieces or pieces[0].end:
            return None
        part = pieces.popleft()
        self._tally.take(part)
        return Piece(part.text, part.reasoning, tuple(part.calls), part.logprob, part.token)

    def _end_turn(self, turn: EngineAnswer, end: str) -> bool:
        """The engine's answer has ended; whether another one follows, after results of functions."""
        tally = self._tally
        tally.end_turn(turn)
        calls = tally.calls
        message = {**turn.message}
        message.pop("tool_calls", None)
        message.setdefault("role", "assistant")
        text = tally.text.replace("\0", "\ufffd")                     # which templates do not accept
        if self._asked.options.pop("continue_final_message", False):
            text = str(self._messages.pop()["content"]) + text          # the whole of the continued message
        message["content"] = text
        if calls:
            message["tool_calls"] = [call.as_dict() for call in calls]
        self._new.append(message)
        with self._batches.alone(finished=False):
            turn.end()
        self._turn = None
        if calls and self._rounds > 0 and all(call.name in self._functions for call in calls):
            self._rounds -= 1
            for call in calls:
                from . import _schema           # a model that never calls needs none of it
                result = self.resolve(_schema.called(self._functions[call.name], call.arguments))
                self._new.append({"role": "tool", "tool_call_id": call.id, "name": call.name,
                                  "content": _schema.result_text(result)})
            self._asked.prompt = json_of([*self._messages, *self._new], "the messages")
            self._asked.tool_choice = None
            tally.again()
            return True
        self._release()
        reason: FinishReason = "tool_calls" if calls else "length" if end in ("length", "full") else "stop"
        parsed = None if reason == "length" else self.parse(tally.text)
        self.answer = Answer(tally.text, tally.reasoning, tuple(calls), reason, tally.usage(), end, message,
                             tuple(self._new), tuple(tally.logprobs), parsed)
        if self._done:
            self._done(self.answer)
        return False

    def read(self) -> Answer:
        """The rest of it; returns the whole answer."""
        self._whole = True
        for _ in self:
            pass
        if self.answer is None:
            raise error("CANCELLED", "the answer was ended before its last piece")
        return self.answer

    def close(self) -> None:
        """Ends the answer."""
        self._over = True               # before its turn is looked for: start() does these in the other order
        try:
            if self._talk and not self._batches.closed and not self._batches.is_foreign:
                with self._batches.alone(finished=False):
                    if self._turn:
                        self._turn.end()
                        self._turn = None
                    self._release()
        except QsfError:                # closed meanwhile
            pass
        self._release()

    def _release(self) -> None:
        self._over = True
        talk, self._talk = self._talk, None
        if talk:
            talk.busy = False

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:          # may run inside of any call: no locks
        turn, talk = getattr(self, "_turn", None), getattr(self, "_talk", None)
        if turn:
            self._batches.later(turn.end)
        if talk and not self._over:
            talk.busy = False

    def __reduce__(self) -> Any:
        raise TypeError("an answer under way cannot be pickled; its Answer can")


def _not_awaitable(value: Any) -> Any:
    import inspect
    if inspect.isawaitable(value):
        if inspect.iscoroutine(value):
            value.close()
        raise error("ARGUMENT", "a tool is an async function: use achat()")
    return value


class Tally:
    """What an answer has so far."""

    def __init__(self) -> None:
        self.text = self.reasoning = ""
        self.calls: list[ToolCall] = []
        self.logprobs: list[Logprob] = []
        self._prompt = self._cached = self._tokens = 0
        self._began = self._first = self._last = 0.0
        self._prompt_seconds = self._answer_seconds = 0.0

    def begin(self) -> None:
        self._began, self._first = time.perf_counter(), 0.0

    def take(self, part: Any) -> None:
        self._last = time.perf_counter()
        if not self._first:
            self._first = self._last
        self.text += part.text
        self.reasoning += part.reasoning
        self.calls += part.calls
        self._tokens += part.tokens
        if part.logprob:
            self.logprobs.append(part.logprob)

    def end_turn(self, turn: EngineAnswer) -> None:
        self._prompt += turn.prompt_tokens
        self._cached += turn.cached_tokens
        self._prompt_seconds += self._first - self._began
        self._answer_seconds += self._last - self._first

    def again(self) -> None:
        self.text, self.reasoning, self.calls = "", "", []

    def usage(self) -> Usage:
        return Usage(self._prompt, self._tokens, self._cached, self._prompt_seconds, self._answer_seconds)


class AsyncStream(AsyncIterator[Piece]):
    """The same for asyncio: `async for` has the pieces, `await` gives the whole answer. A thread computes;
    the event loop is never blocked."""

    def __init__(self, make: Callable[[], Stream], executor: Callable[[], Executor]) -> None:
        self._make, self._executor = make, executor
        self._stream: Stream | None = None

    @property
    def answer(self) -> Answer | None:
        return self._stream.answer if self._stream else None

    async def _run(self, call: Callable[[Stream], Any]) -> Any:
        import asyncio
        loop = asyncio.get_running_loop()
        if self._stream is None:
            self._stream = self._make()
            self._stream.resolve = lambda value: _awaited(value, loop)
        stream = self._stream
        running = loop.run_in_executor(self._executor(), call, stream)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            running.add_done_callback(lambda done: done.cancelled() or done.exception())
            try:
                self._executor().submit(stream.close)
            except QsfError:                    # closed meanwhile
                pass
            raise

    def __aiter__(self) -> AsyncStream:
        return self

    async def __anext__(self) -> Piece:
        piece = self._stream.ready() if self._stream else None
        if piece is not None:
            await self._pass()
            return piece
        piece = await self._run(lambda stream: next(stream, None))
        if piece is None:
            raise StopAsyncIteration
        return _piece(piece)

    async def _pass(self) -> None:
        """Lets other tasks run."""
        import asyncio
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            if self._stream:
                self._executor().submit(self._stream.close)
            raise

    def __await__(self) -> Generator[Any, None, Answer]:
        return self._whole().__await__()

    async def _whole(self) -> Answer:
        answer = await self._run(lambda stream: stream.read())
        assert isinstance(answer, Answer)
        return answer

    async def aclose(self) -> None:
        """Ends the answer."""
        if self._stream:
            await self._run(lambda stream: stream.close())

    async def __aenter__(self) -> AsyncStream:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def _piece(value: Any) -> Piece:
    assert isinstance(value, Piece)
    return value


def _awaited(value: Any, loop: asyncio.AbstractEventLoop) -> Any:
    """In a thread besides that of the loop."""
    import asyncio
    import inspect
    if not inspect.isawaitable(value):
        return value

    async def wait() -> Any:
        return await value
    return asyncio.run_coroutine_threadsafe(wait(), loop).result()
