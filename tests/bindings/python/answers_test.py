#!/usr/bin/env python3
"""The Python package as its users see it: answers whole and in pieces, options, tools, schemas,
vectors, conversations, and what misuse gives.
SPDX-License-Identifier: MIT

    answers_test.py LIBQSF_PYTHON [unittest options]
"""
import asyncio, copy, json, math, os, pathlib, pickle, re, unittest
from typing import Literal

from python_case import (CHAT, COLD, Case, FOLDER, TEMPLATE, calls, endless, hello, load, scripted, tiny,
                         whole)
import numpy as np
import qsf

class Answers(Case):
    def test_a_whole_answer_has_its_text_reason_and_usage(self):
        answer = self.load(hello()).chat("Hi", **CHAT)
        self.assertEqual((str(answer), answer.text, answer.reasoning, answer.tool_calls),
                         ("Hello world.", "Hello world.", "", ()))
        self.assertEqual((answer.finish_reason, answer.end), ("stop", "end"))
        self.assertEqual(answer.message, {"role": "assistant", "content": "Hello world."})
        usage = answer.usage
        self.assertEqual(usage.completion_tokens, 2)
        self.assertEqual(usage.total_tokens, usage.prompt_tokens + 2)
        self.assertGreater(usage.prompt_tokens, 2)
        self.assertEqual(copy.copy(pickle.loads(pickle.dumps(answer))), answer)

    def test_a_stream_has_the_same_text_in_pieces(self):
        model = self.load(hello())
        stream = model.chat("Hi", stream=True, **CHAT)
        self.assertIsNone(stream.answer)
        pieces = list(stream)
        self.assertEqual([str(piece) for piece in pieces if piece], ["Hello", " world."])
        self.assertEqual("".join(pieces), stream.answer.text)
        self.assertIs(pieces[-1].answer, stream.answer)
        self.assertTrue(all(piece.answer is None for piece in pieces[:-1]))
        self.assertEqual(list(stream), [])
        self.assertEqual(pickle.loads(pickle.dumps(pieces[0])).token, pieces[0].token)

    def test_pieces_that_come_together_are_as_many(self):
        model = self.load(tiny())
        asked = {"max_tokens": 60, "logprobs": True, "top_logprobs": 2, "ignore_end": True, **COLD}
        stream = model.generate("Once", stream=True, **asked)
        pieces = list(stream)
        for answer in stream.answer, model.generate("Once", **asked):
            self.assertEqual([one.token for one in answer.logprobs], [piece.token for piece in pieces[:-1]])
            self.assertEqual([len(one.top) for one in answer.logprobs], [2] * 60)
            self.assertEqual(answer.text, "".join(pieces))
            self.assertEqual((answer.usage.completion_tokens, answer.end), (60, "length"))
        del asked["logprobs"], asked["top_logprobs"]
        answer = model.generate("Once", **asked)
        self.assertEqual((answer.text, answer.usage.completion_tokens, answer.logprobs),
                         ("".join(pieces), 60, ()))

    def test_the_length_ends_an_answer(self):
        model = self.load(endless())
        answer = model.generate("x\n", max_tokens=3, **COLD)
        self.assertEqual((answer.text, answer.finish_reason, answer.end), ("again " * 3, "length", "length"))
        self.assertEqual(model.generate("x\n", max_tokens=9, stop="ain again", **COLD).text, "ag")
        self.assertEqual(model.generate("x\n", **COLD).usage.completion_tokens, 256)

    def test_a_prompt_may_be_tokens(self):
        model = self.load(hello())
        ids = model.tokenize("Hi\n")
        self.assertEqual(model.generate(np.array(ids), **COLD).text, model.generate("Hi\n", **COLD).text)
        self.assertEqual(model.detokenize(ids), "Hi\n")

    def test_what_a_prompt_has_in_common_is_not_computed_again(self):
        model = self.load(hello())
        first = model.chat("The same beginning", **CHAT).usage
        again = model.chat([{"role": "user", "content": "The same beginning"},
                            {"role": "assistant", "content": "Hello world."},
                            {"role": "user", "content": "and more"}], **CHAT).usage
        self.assertEqual(first.cached_tokens, 0)
        self.assertGreaterEqual(again.cached_tokens, first.prompt_tokens - 1)

    def test_log_probabilities(self):
        model = self.load(hello())
        answer = model.generate("Hi\n", logprobs=True, top_logprobs=2, **COLD)
        self.assertEqual([one.text for one in answer.logprobs], ["Hello", " world."])
        for one in answer.logprobs:
            self.assertEqual((one.top[0].token, one.top[0].logprob), (one.token, one.logprob))
            self.assertLess(one.top[1].logprob, one.logprob)
            self.assertLessEqual(one.logprob, 0)
        row = model.logits(model.tokenize("Hi\n")).astype(float)
        want = row.max() - np.log(np.exp(row).sum())
        self.assertAlmostEqual(answer.logprobs[0].logprob, want, 4)

    def test_reasoning_is_apart(self):
        model = self.load(scripted("thinks", "<think>", "one ", "two", "</think>", "Yes."))
        answer = model.chat("Well?", template=TEMPLATE, **COLD)
        self.assertEqual((answer.reasoning.strip(), answer.text.strip()), ("one two", "Yes."))

    def test_messages_of_other_packages_and_answers_are_messages(self):
        model = self.load(hello())

        class Dumped:
            def model_dump(self, **_):
                return {"role": "user", "content": [{"type": "text", "text": "Hi"}]}
        first = model.chat([Dumped()], **CHAT)
        again = model.chat([{"role": "user", "content": "Hi"}, first, ("role",) and {"role": "user",
                                                                                     "content": "x"}], **CHAT)
        self.assertEqual(again.text, first.text)

    def test_a_zero_byte_of_an_answer_does_not_end_its_conversation(self):
        talk = self.load(scripted("zero", "a\0b")).conversation(**CHAT)
        self.assertEqual(talk.chat("x").text, "a\0b")
        self.assertEqual(talk.chat("y").text, "a\0b")
        self.assertEqual(talk.messages[1]["content"], "a\ufffdb")

    def test_halves_of_characters_do_not_end_the_program(self):
        model = self.load(hello())
        self.assertEqual(model.detokenize(model.tokenize("a\ud800b")), "a\ufffdb")
        self.assertEqual(model.chat("a\udfff", **CHAT).text, "Hello world.")


class Constraints(Case):
    def test_forms_of_answers(self):
        model = self.load(tiny())
        for form, fits in (
                ({"type": "regex", "regex": "[ab]{3}"}, "[ab]{3}"), (re.compile("x+y"), "x+y"),
                ({"type": "choices", "choices": ["yes", "no"]}, "yes|no"),
                ({"type": "grammar", "grammar": 'root ::= "o" "k"'}, "ok"),
                ({"type": "json_schema", "json_schema": {"name": "n", "schema": {"enum": ["17"]}}},
                 r'\s*"17"\s*'),
                ({"type": "boolean"}, r"\s*(true|false)\s*")):
            with self.subTest(form):
                text = model.generate("x", response_format=form, max_tokens=40, seed=1).text
                self.assertTrue(re.fullmatch(fits, text), text)
        text = model.chat("x", response_format={"type": "json_object"}, max_tokens=300, json_blanks=0, seed=5,
                          temperature=2, template="chatml").text
        self.assertTrue(text.startswith("{"), text)

    def test_a_pydantic_model_is_a_form_and_its_objects_come_back(self):
        try:
            import pydantic
        except ImportError:
            self.skipTest("this Python has no pydantic")

        class Point(pydantic.BaseModel):
            x: Literal["3"]
            name: Literal["p"]
        answer = self.load(tiny()).chat("x", response_format=Point, json_blanks=0, max_tokens=60, seed=2,
                                        template="chatml")
        self.assertEqual(answer.parsed, Point(x="3", name="p"))
        self.assertEqual(json.loads(answer.text), {"x": "3", "name": "p"})

    def test_wrong_forms_are_refused(self):
        model = self.load(hello())
        for form, says in (("json", "response_format is 'json'"), ({"type": "xml"}, "xml"),
                           ({"type": "regex"}, "response_format.regex"),
                           ({"type": "regex", "regex": "("}, "response_format"),
                           ({"type": "json_schema"}, "schema"),
                           ({"type": "json_schema", "strict": True, "schema": {"contains": 1}}, "contains")):
            with self.subTest(form), self.refused("ARGUMENT", says):
                model.chat("Hi", response_format=form)
        self.assertEqual(model.chat("Hi", **CHAT).text, "Hello world.")


class Tools(Case):
    def add(self, a: Literal[2], b: Literal[3] = 3) -> int:
        """Adds two numbers.

        Args:
            a: the first one
            b (int): the second one
        """
        self.called.append((a, b))
        return a + b

    def setUp(self):
        self.called = []
        self.once = {**COLD, "template": TEMPLATE, "parallel_tool_calls": False}
        self.model = self.load(calls())

    def test_functions_are_called_and_the_model_answers_again(self):
        answer = self.model.chat("2 + 3?", tools=[self.add], max_tool_rounds=2, **self.once)
        self.assertEqual(self.called, [(2, 3), (2, 3)])         # the script calls each time
        self.assertEqual(answer.finish_reason, "tool_calls")
        self.assertEqual([one["role"] for one in answer.messages],
                         ["assistant", "tool", "assistant", "tool", "assistant"])
        call = answer.tool_calls[0]
        self.assertEqual((call.name, json.loads(call.arguments)), ("add", {"a": 2, "b": 3}))
        result = answer.messages[1]
        self.assertEqual((result["content"], result["tool_call_id"]),
                         ("5", answer.messages[0]["tool_calls"][0]["id"]))

    def test_tools_in_openai_s_form_are_not_called(self):
        tool = {"type": "function", "function": {"name": "add", "parameters": {
            "type": "object", "properties": {}, "additionalProperties": False}}}
        answer = self.model.chat("2 + 3?", tools=[tool], **self.once)
        self.assertEqual([call.name for call in answer.tool_calls], ["add"])
        self.assertEqual(answer.message["tool_calls"][0]["function"]["name"], "add")
        self.assertEqual(len(answer.messages), 1)

    def test_a_function_s_schema_is_that_of_its_signature(self):
        from qsf._schema import tool_of
        def add(a: int, b: int = 0): ...
        add.__doc__ = self.add.__doc__
        made = tool_of(add)["function"]
        self.assertEqual((made["name"], made["description"]), ("add", "Adds two numbers."))
        self.assertEqual(made["parameters"], {
            "type": "object", "required": ["a"], "additionalProperties": False,
            "properties": {"a": {"type": "integer", "description": "the first one"},
                           "b": {"type": "integer", "description": "the second one"}}})

        def more(kind: Literal["x", "y"], many: "list[float]", few: "dict[str, bool]"): ...
        self.assertEqual(tool_of(more)["function"]["parameters"]["properties"], {
            "kind": {"enum": ["x", "y"]}, "many": {"type": "array", "items": {"type": "number"}},
            "few": {"type": "object", "additionalProperties": {"type": "boolean"}}})
        with self.refused("ARGUMENT", "named arguments"):
            tool_of(lambda *a: a)

    def test_an_error_in_a_function_is_the_caller_s(self):
        def add(a: Literal[2]):
            raise KeyError("inside")
        with self.assertRaises(KeyError):
            self.model.chat("2 + 3?", tools=[add], **self.once)
        self.assertEqual(self.model.chat("x", tools=[], **self.once).tool_calls, ())

    def test_async_functions_need_asyncio(self):
        async def add(a: Literal[2], b: Literal[3]):
            await asyncio.sleep(0)
            return a * b
        with self.refused("ARGUMENT", "achat"):
            self.model.chat("2 * 3?", tools=[add], **self.once)
        answer = asyncio.run(whole(self.model.achat("2 * 3?", tools=[add], max_tool_rounds=1,
                                                    **self.once)))
        self.assertEqual(answer.messages[1]["content"], "6")


class Options(Case):
    def test_unknown_names_are_refused_with_a_hint(self):
        model = self.load(hello())
        for name, says in (("max_new_tokens", "max_tokens"), ("maxTokens", "max_tokens"),
                           ("temprature", "temperature"), ("n_ctx", "context_length"),
                           ("do_sample", "temperature=0"), ("repetition_penalty", "repeat_penalty"),
                           ("grammar", "response_format")):
            with self.subTest(name), self.refused("ARGUMENT", name, says):
                model.chat("Hi", **{name: 1})
        with self.refused("ARGUMENT", "gpu_layers"):
            qsf.load(hello(), n_gpu_layers=1)
        with self.refused("ARGUMENT", "n_ctx", "context_length"):
            qsf.load(hello(), n_ctx=1)

    def test_wrong_values_are_refused_with_the_valid_ones(self):
        model = self.load(hello())
        wrong = {"temperature": ["hot", -1, True, math.nan, [1]], "top_k": [1.5, "3", -1, 2 ** 70],
                 "max_tokens": ["many", -2, 1.5], "stop": [1, [""], [1], {}],
                 "logit_bias": [1, {"x": 1}, {1: "a"}],
                 "tools": ["add", 5], "response_format": [5], "seed": [-1, "x"], "logprobs": [1],
                 "adapters": ["a", ["a"]], "tool_choice": [5], "json_blanks": [-2], "choice": [-1],
                 "mirostat": [3], "template": ["", 5, "a\0b"], "chat_template_kwargs": [[1]],
                 "documents": ["x"]}
        for name, values in wrong.items():
            for value in values:
                with self.subTest(name, value=value), self.refused("ARGUMENT", name):
                    model.chat("Hi", **{name: value})
        self.assertEqual(model.chat("Hi", stop=None, top_k=None, **CHAT).text, "Hello world.")
        with self.refused("ARGUMENT", "top_logprobs"):
            model.chat("Hi", top_logprobs=1)

    def test_wrong_inputs_are_refused(self):
        model = self.load(hello())
        for messages in (None, 5, b"x", {"role": "user"}, [5], [{"role": "user"}], [{"content": "x"}],
                         [{"role": "user", "content": 5}], [{"role": "user", "content": "a\0b"}],
                         [{"role": "user", "content": {1, 2}}]):
            with self.subTest(messages), self.refused("ARGUMENT"):
                model.chat(messages)
        for ids in (5, None, [1.5], [-1], [10 ** 9], {"a": 1}, [None], b"ab"):
            with self.subTest(ids), self.refused("ARGUMENT"):
                model.generate(ids)
        for text in (5, None, b"x"):
            with self.refused("ARGUMENT"):
                model.tokenize(text)
        with self.refused("ARGUMENT"):
            model.embed(5)
        with self.refused("ARGUMENT"):
            model.rerank("q", "one string")
        with self.refused("ARGUMENT"):
            model.load_session("text")

    def test_loading_what_is_not_there(self):
        with self.refused("NOT_FOUND", "no/such"):
            qsf.load("no/such/file.gguf")
        with self.assertRaises(FileNotFoundError):
            qsf.load(pathlib.Path("no/such/file.gguf"))
        for path in (5, None, "", "a\0b"):
            with self.subTest(path), self.refused("ARGUMENT", "path"):
                qsf.load(path)
        broken = FOLDER / "broken.gguf"
        broken.write_bytes(hello().read_bytes()[:3000])
        with self.refused("CORRUPT"):
            qsf.load(broken)
        with self.refused("BUDGET", "needs at least"):
            load(hello(), ram_budget=0.01)

    def test_a_gpu_that_is_not_there_is_an_error(self):
        before = os.environ.get("QSF_WEBGPU_LIB")
        os.environ["QSF_WEBGPU_LIB"] = str(FOLDER / "no_library.so")
        try:
            with self.refused("NOT_FOUND", "no_library"):
                load(hello(), device="gpu")
        finally:
            del os.environ["QSF_WEBGPU_LIB"]
            if before:
                os.environ["QSF_WEBGPU_LIB"] = before
        self.assertEqual(self.load(hello()).info.device.kind, "cpu")

    def test_options_of_load_have_effects(self):
        model = self.load(hello(), context_length=64, kv_type="f16", max_parallel=2)
        self.assertEqual((model.info.context_length, model.info.max_parallel), (64, 2))
        self.assertEqual((model.info.architecture, model.info.format), ("llama", "GGUF"))
        with self.refused("FULL"):
            model.generate([65] * 65)
        self.assertEqual(self.load(hello(), ram_budget=200).info.max_parallel, 1)


class Vectors(Case):
    def test_embeddings(self):
        model = self.load(tiny())
        one, two = model.embed("some words"), model.embed(["some words", "others"])
        self.assertEqual((one.shape, two.shape, two.dtype), ((model.info.embedding,),
                                                             (2, model.info.embedding), np.float32))
        np.testing.assert_array_equal(one, two[0])
        self.assertAlmostEqual(float(np.linalg.norm(one)), 1, 5)
        tokens = model.embed("some words", pooling="none")
        self.assertEqual(tokens.shape, (len(model.tokenize("some words", add_special=True)),
                                        model.info.embedding))
        plain = model.embed("some words", normalize=False)
        np.testing.assert_allclose(plain / np.linalg.norm(plain), one, atol=1e-6)
        self.assertEqual(model.embed([]).shape, (0, model.info.embedding))

    def test_logits_of_a_prefix_are_rows_of_the_whole(self):
        model = self.load(tiny())
        ids = model.tokenize("a few words and some more of them")
        rows = model.logits(ids, every=True)
        self.assertEqual(rows.shape, (len(ids), model.info.vocabulary))
        np.testing.assert_allclose(model.logits(ids[:4]), rows[3], rtol=1e-2, atol=1e-2)
        losses = [float(np.log(np.exp(row.astype(float)).sum()) - row[token])
                  for row, token in zip(rows, ids[1:])]
        self.assertAlmostEqual(model.perplexity(ids), math.exp(sum(losses) / len(losses)), 2)
        with self.refused("ARGUMENT"):
            model.perplexity([1])

    def test_vectors_between_the_pieces_of_an_answer(self):
        model = self.load(endless())
        want = model.embed("words")
        stream = model.generate("x\n", stream=True, max_tokens=6, **COLD)
        texts = [str(next(stream)), str(next(stream))]
        np.testing.assert_array_equal(model.embed("words"), want)
        model.logits("words")
        self.assertEqual("".join(texts) + "".join(stream), "again " * 6)


class Conversations(Case):
    def test_a_conversation_keeps_its_messages(self):
        model = self.load(hello())
        with model.conversation(system="Be brief.", **CHAT) as talk:
            talk.chat("One")
            usage = talk.chat("Two").usage
            self.assertEqual([(one["role"], one["content"]) for one in talk.messages], [
                ("system", "Be brief."), ("user", "One"), ("assistant", "Hello world."), ("user", "Two"),
                ("assistant", "Hello world.")])
            self.assertGreater(usage.cached_tokens, 5)
            before = talk.messages
            next(talk.chat("Three", stream=True))                # dropped
            self.assertEqual(talk.messages, before)
            talk.chat([{"role": "user", "content": "Anew"}])
            self.assertEqual(len(talk.messages), 3)
        with self.refused("CLOSED"):
            talk.chat("Four")

    def test_an_answer_may_continue_the_last_message(self):
        model = self.load(hello())
        talk = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "So:\n"}]
        answer = model.chat(talk, continue_final_message=True, **CHAT)
        self.assertEqual((answer.text, answer.message["content"]), ("Hello world.", "So:\nHello world."))
        with model.conversation(messages=talk[:1], **CHAT) as own:
            own.chat(talk, continue_final_message=True)
            self.assertEqual([one["content"] for one in own.messages], ["x", "So:\nHello world."])

    def test_one_answer_at_a_time(self):
        talk = self.load(endless()).conversation(max_tokens=5, **CHAT)
        stream = talk.chat("x", stream=True)
        next(stream)
        for use in (lambda: talk.chat("y"), talk.save):
            with self.refused("BUSY", "not finished"):
                use()
        stream.close()
        self.assertEqual(talk.chat("y").usage.completion_tokens, 5)

    def test_more_conversations_than_fit_answer_as_each_alone(self):
        model = self.load(endless(), context_length=96, max_parallel=2)
        talks = [model.conversation(max_tokens=4, **CHAT) for _ in range(6)]
        for word in ("first", "second"):
            for talk in talks:
                self.assertEqual(talk.chat(word).text, "again " * 4)

    def test_sessions(self):
        model = self.load(tiny())
        talk = model.conversation(template="chatml", max_tokens=6, **COLD)
        talk.chat("What is saved?")
        data = talk.save()
        want = talk.chat("Next").text
        other = self.load(tiny()).conversation(messages=talk.messages[:2], max_tokens=6, **CHAT)
        self.assertGreater(other.load(data), 6)
        answer = other.chat("Next")
        self.assertEqual(answer.text, want)
        self.assertGreater(answer.usage.cached_tokens, 6)
        with self.refused("CORRUPT"):
            other.load(data[:-1])
        with self.refused("CORRUPT"):
            other.load(b"")
        model.chat("The model's own", template="chatml", max_tokens=3)
        self.assertGreater(model.load_session(model.save_session()), 3)


if __name__ == "__main__":
    unittest.main()
