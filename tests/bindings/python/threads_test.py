#!/usr/bin/env python3
"""Answers of several threads and tasks at once; what ends them; what closed, forked and forgotten models do.
SPDX-License-Identifier: MIT

    threads_test.py LIBQSF_PYTHON [unittest options]
"""
import asyncio, gc, linecache, math, os, pickle, signal, subprocess, sys, threading, time, unittest

from python_case import CHAT, COLD, Case, LIBRARY, PACKAGE, endless, hello, load, tiny, whole
import qsf


def stop():
    raise KeyboardInterrupt


def interrupted(line, call, act=stop):
    """Whether the call was interrupted: by an act, at this line that the package runs during the call."""
    left, package = [line], str(PACKAGE)

    def trace(frame, event, _):
        if not frame.f_code.co_filename.startswith(package):
            return None
        # A with statement is also a line when it ends, where an interrupt never comes.
        if event == "line" and not linecache.getline(frame.f_code.co_filename,
                                                     frame.f_lineno).lstrip().startswith("with "):
            left[0] -= 1
            if left[0] == -1:
                act()
        return trace
    sys.settrace(trace)
    try:
        call()
        return False
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(None)


def meanwhile(model, thread):
    """Starts a thread, which runs to its end, or until it waits for this one."""
    is_locked = model._batches._lock.locked() or model._talks._lock.locked()
    thread.start()
    while thread.is_alive() and not model._batches._waiters and not is_locked:
        time.sleep(0)


class Together(Case):
    def test_threads_share_batches_and_get_their_own_answers(self):
        model = self.load(tiny())
        asked = [f"Question {i}" for i in range(12)]
        ask = lambda text: model.chat(text, template="chatml", max_tokens=8, **COLD).text
        want, got = [ask(text) for text in asked], [None] * len(asked)
        rows = model.stats()["generated_tokens"]

        def run(i):
            got[i] = ask(asked[i])
        threads = [threading.Thread(target=run, args=(i,)) for i in range(len(asked))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(got, want)
        self.assertGreater(model.stats()["generated_tokens"], rows)

    def test_asyncio_is_not_blocked(self):
        model = self.load(endless())

        async def count():
            n = 0
            try:
                while True:
                    await asyncio.sleep(0)
                    n += 1
            except asyncio.CancelledError:
                return n

        async def pieces(n):
            return "".join([piece async for piece in model.achat("x", max_tokens=n, **CHAT)])

        async def main():
            counting = asyncio.create_task(count())
            texts = await asyncio.gather(*map(pieces, range(1, 9)))
            answer = await model.agenerate("x\n", max_tokens=2, **COLD)
            counting.cancel()
            return texts, answer, await counting
        texts, answer, n = asyncio.run(main())
        self.assertEqual(texts, ["again " * i for i in range(1, 9)])
        self.assertEqual(answer.text, "again again ")
        self.assertGreater(n, 8)

    def test_a_cancelled_task_ends_its_answer(self):
        model = self.load(endless())

        async def main():
            task = asyncio.create_task(whole(model.achat("x", max_tokens=math.inf, **CHAT)))
            await asyncio.sleep(0)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            return await model.achat("x", max_tokens=2, **CHAT)
        self.assertEqual(asyncio.run(main()).text, "again again ")

    def test_dropped_iterators_end(self):
        model = self.load(endless(), max_parallel=2)
        for _ in range(8):
            for piece in model.chat("x", stream=True, max_tokens=math.inf, **CHAT):
                break
            next(model.generate("x\n", stream=True, max_tokens=math.inf))
        with model.chat("x", stream=True, **CHAT) as stream:
            next(stream)
        self.assertEqual(list(stream), [])
        with self.refused("CANCELLED"):
            stream.read()
        self.assertEqual(model.chat("x", max_tokens=2, **CHAT).text, "again again ")

    def test_an_interrupt_stops_an_answer(self):
        model = self.load(endless())
        stream, n = model.generate("x\n", stream=True, max_tokens=math.inf, **COLD), 0
        with self.assertRaises(KeyboardInterrupt):
            for n, _ in enumerate(stream):
                if n == 3:
                    signal.raise_signal(signal.SIGINT)
        self.assertEqual(n, 3)
        self.assertEqual(model.generate("x\n", max_tokens=2, **COLD).text, "again again ")

    def test_an_interrupt_at_any_line_changes_no_other_answer(self):
        model = self.load(tiny())
        ask = lambda n: model.generate("Once", stream=True, max_tokens=n, **COLD)       # noqa: E731
        want, cancelled = [piece.token for piece in ask(8)], 0
        for line in range(0, 1000, 5 if os.environ.get("LD_PRELOAD") else 1):      # a sanitizer is slow
            other, ended = ask(8), ask(200)
            got = [next(other).token]
            was_interrupted = interrupted(line, lambda: [next(ended) for _ in range(4)])
            try:
                got += [piece.token for piece in other]
            except qsf.QsfError as error:           # it came while a piece of this one was read
                self.assertEqual(error.code, "CANCELLED")
                cancelled += 1
                want_here = want[: len(got)]
            else:
                want_here = want
            self.assertEqual(got, want_here, f"interrupted at line {line}")
            ended.close()
            if not was_interrupted:
                break
        self.assertGreater(line, 100)
        self.assertLess(cancelled, line / 4)

    def test_other_answers_at_any_line_of_one_change_none(self):
        """Every second line: another thread may read, or compute, the last piece of any between any two."""
        model = self.load(endless())
        ask = lambda: model.generate("x\n", stream=True, max_tokens=2, **COLD)     # noqa: E731
        for line in range(0, 2000, 22 if os.environ.get("LD_PRELOAD") else 2):
            begun, said = ask(), []
            first = next(begun)
            thread = threading.Thread(target=lambda: said.extend([first + "".join(begun), "".join(ask())]))
            interrupted(line, lambda: said.append("".join(ask())), lambda: meanwhile(model, thread))
            if not thread.ident:
                break
            thread.join()
            self.assertEqual(said, ["again again "] * 3, f"others at line {line}")
        self.assertGreater(line, 100)

    def test_closing_at_any_line_of_a_beginning_leaves_nothing(self):
        model = self.load(endless())
        for line in range(0, 1000, 11 if os.environ.get("LD_PRELOAD") else 3):
            stream = model.agenerate("x\n", max_tokens=math.inf, **COLD)._make()
            thread = threading.Thread(target=stream.close)

            def close(thread=thread):
                thread.start()
                while thread.is_alive() and thread.ident not in model._batches._jobs:
                    time.sleep(0)
            try:
                interrupted(line, lambda stream=stream: [next(stream) for _ in range(3)], close)
            except qsf.QsfError as error:
                self.assertEqual(error.code, "CANCELLED", f"closed at line {line}")
            except StopIteration:
                pass
            if not thread.ident:
                break
            thread.join()
            self.assertEqual(model.generate("x\n", max_tokens=2, **COLD).text, "again again ",
                             f"closed at line {line}")
            self.assertEqual(model._batches._turns, [])
        self.assertGreater(line, 100)

    def test_whole_answers_and_streams_together(self):
        model, got = self.load(endless()), {}

        def run(i):
            n = 40 * i
            got[i] = (model.generate("x\n", max_tokens=n, **COLD).text if i % 2 else
                      "".join(model.generate("x\n", max_tokens=n, stream=True, **COLD)))
        threads = [threading.Thread(target=run, args=(i,)) for i in range(1, 7)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(got, {i: "again " * 40 * i for i in range(1, 7)})

    def test_closing_ends_answers_of_other_threads(self):
        model, errors, begun = self.load(endless()), [], threading.Event()

        def run():
            try:
                for _ in model.generate("x\n", stream=True, max_tokens=math.inf):
                    begun.set()
            except qsf.QsfError as error:
                errors.append(error.code)
        thread = threading.Thread(target=run)
        thread.start()
        begun.wait()
        model.close()
        thread.join()
        self.assertEqual(errors, ["CLOSED"])

    def test_closing_at_any_line_of_a_call_is_said(self):
        for step, call in ((1, lambda model: model.tokenize("a b")), (5, lambda model: model.embed("a")),
                           (1, lambda model: model.detokenize([97, 98])),
                           (3, lambda model: model.chat("x", max_tokens=2, **CHAT).text)):
            want = str([call(self.load(hello()))])
            for line in range(0, 2000, 22 if os.environ.get("LD_PRELOAD") else step):
                model, got = load(hello()), []
                thread = threading.Thread(target=model.close)
                try:
                    interrupted(line, lambda: got.append(call(model)), lambda: meanwhile(model, thread))
                except qsf.QsfError as error:
                    self.assertEqual(error.code, "CLOSED", f"closed at line {line}: {error}")
                else:
                    self.assertEqual(str(got), want, f"closed at line {line}")
                if not thread.ident:
                    model.close()
                    break
                thread.join()

    def test_closing_ends_tasks(self):
        async def read(cancel):
            model = self.load(endless())
            stream = model.achat("x", max_tokens=math.inf, **CHAT)
            await stream.__anext__()
            if cancel:
                task = asyncio.ensure_future(whole(stream))
                await asyncio.sleep(0)              # its thread computes
                model.close()
                task.cancel()
                await task
            model.close()
            await stream.__anext__()
        with self.refused("CLOSED"):
            asyncio.run(read(False))
        with self.assertRaises(asyncio.CancelledError):
            asyncio.run(read(True))


class Ends(Case):
    def test_a_closed_model_refuses_everything(self):
        model = load(hello())
        talk, stream = model.conversation(), model.chat("Hi", stream=True, **CHAT)
        next(stream)
        with model:
            pass
        model.close()
        for use in (lambda: model.chat("Hi"), lambda: model.generate("Hi"), lambda: model.tokenize("Hi"),
                    lambda: model.detokenize([1]), lambda: model.embed("Hi"), lambda: model.render("Hi"),
                    lambda: model.logits("Hi"), model.stats, lambda: talk.chat("Hi"), talk.save,
                    lambda: next(stream), model.save_session, lambda: asyncio.run(whole(model.achat("Hi")))):
            with self.refused("CLOSED", "closed"):
                use()
        self.assertIn("closed", repr(model))
        talk.close()

    def test_a_model_without_weights_says_so(self):
        model = self.load(hello(), vocab_only=True)
        self.assertTrue(model.tokenize("Hi"))
        for use in lambda: model.chat("Hi"), lambda: model.embed("Hi"), lambda: model.logits("Hi"):
            with self.refused("ARGUMENT", "vocab_only"):
                use()

    def test_nothing_alive_is_pickled(self):
        model = self.load(hello())
        for thing in (model, model.conversation(), model.chat("Hi", stream=True)):
            with self.assertRaises(TypeError):
                pickle.dumps(thing)

    def test_errors_are_pickled(self):
        with self.assertRaises(qsf.ArgumentError) as raised:
            qsf.load(hello(), threads="many")
        again = pickle.loads(pickle.dumps(raised.exception))
        self.assertEqual((type(again), again.code, str(again)),
                         (qsf.ArgumentError, "ARGUMENT", str(raised.exception)))

    @unittest.skipUnless(hasattr(os, "fork"), "no fork here")
    def test_a_forked_process_is_refused(self):
        code = ("import os, sys, qsf\n"
                f"model = qsf.load({str(hello())!r}, threads=2)\n"
                "model.chat('Hi')\n"
                "child = os.fork()\n"
                "if not child:\n"
                "    try: model.chat('Hi')\n"
                "    except qsf.QsfError as error: code = error.code\n"
                f"    own = qsf.load({str(hello())!r}, threads=2)\n"
                "    own = own.chat('Hi', temperature=0, template='chatml')\n"
                "    sys.exit(0 if (code, str(own)) == ('FORKED', 'Hello world.') else 1)\n"
                "assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0\n"
                "print(model.chat('Hi', temperature=0, template='chatml'))\n")
        done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True,
                              env={**os.environ, "PYTHONPATH": str(PACKAGE), "QSF_LIBRARY": LIBRARY})
        self.assertEqual((done.returncode, done.stdout), (0, "Hello world.\n"), done.stderr)

    def test_what_nothing_refers_to_is_freed(self):
        model = self.load(hello())
        for _ in range(70):                             # more than there are handles' places at once
            talk = model.conversation()
            talk.chat("Hi", max_tokens=1)
        del talk
        gc.collect()
        self.assertEqual(model.chat("Hi", **CHAT).text, "Hello world.")
        ends = []
        for _ in range(3):
            model = load(hello())
            stream = model.chat("Hi", stream=True, **CHAT)
            next(stream)
            ends.append(model._end)
            del stream, model                           # the stream first
        gc.collect()
        self.assertEqual([end.alive for end in ends], [False] * 3)


if __name__ == "__main__":
    unittest.main()
