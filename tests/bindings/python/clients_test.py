#!/usr/bin/env python3
"""The Python package in the forms of others: the unmodified openai package reads what qsf.OpenAI returns, and
scripts for llama_cpp.Llama run.
SPDX-License-Identifier: MIT

    clients_test.py LIBQSF_PYTHON [unittest options]
"""
import asyncio, base64, json, unittest
from unittest import mock

from python_case import TEMPLATE, calls, endless, hello, tiny
import numpy as np
import qsf
from qsf import llama_cpp
from qsf.llama_cpp import Llama, LlamaGrammar
try:
    import openai
    from openai.types import Completion, CreateEmbeddingResponse, Model as ModelType
    from openai.types.chat import ChatCompletion, ChatCompletionChunk
except ImportError:
    openai = None

ASK = {"messages": [{"role": "user", "content": "Hi"}], "model": "any", "temperature": 0,
       "extra_body": {"template": "chatml"}}


@unittest.skipUnless(openai, "this Python has no openai (tests/requirements.txt)")
class OpenAI(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.model = qsf.load(hello(), threads=1)
        cls.client = qsf.OpenAI(cls.model, "a name")

    @classmethod
    def tearDownClass(cls):
        cls.model.close()

    def read(self, kind, response):
        """The response as openai's own type: its text is read without a warning, and nothing is lost."""
        read = kind.model_validate_json(response.model_dump_json(), strict=True)
        self.assertEqual(read.model_dump(exclude_unset=True), response.model_dump())
        self.same_attributes(read, response)
        return read

    def same_attributes(self, theirs, ours):
        if isinstance(theirs, list):
            for one, other in zip(theirs, ours):
                self.same_attributes(one, other)
        elif hasattr(type(theirs), "model_fields"):
            for name in type(theirs).model_fields:
                self.same_attributes(getattr(theirs, name), getattr(ours, name))
        else:
            self.assertEqual(theirs, ours)

    def test_a_chat(self):
        response = self.client.chat.completions.create(**ASK)
        read = self.read(ChatCompletion, response)
        choice = response.choices[0]
        self.assertEqual((choice.message.content, choice.finish_reason, response.model),
                         ("Hello world.", "stop", "a name"))
        self.assertEqual(read.usage.completion_tokens, 2)
        with self.assertRaises(AttributeError):
            response.nothing

    def test_a_stream(self):
        chunks = list(self.client.chat.completions.create(stream=True, stream_options={"include_usage": True},
                                                          **ASK))
        read = [self.read(ChatCompletionChunk, chunk) for chunk in chunks]
        self.assertEqual("".join(one.choices[0].delta.content or "" for one in read if one.choices),
                         "Hello world.")
        self.assertEqual([one.choices[0].finish_reason for one in read if one.choices][-1], "stop")
        self.assertEqual((read[-1].choices, read[-1].usage.completion_tokens), ([], 2))
        self.assertEqual(len({one.id for one in read}), 1)
        with self.client.chat.completions.create(stream=True, **ASK) as stream:
            next(stream)

    def test_log_probabilities(self):
        response = self.client.chat.completions.create(logprobs=True, top_logprobs=2, **ASK)
        content = self.read(ChatCompletion, response).choices[0].logprobs.content
        self.assertEqual([one.token for one in content], ["Hello", " world."])
        self.assertEqual(len(content[0].top_logprobs), 2)

    def test_tools(self):
        tool = {"type": "function", "function": {"name": "add", "parameters": {
            "type": "object", "properties": {"a": {"enum": ["2"]}}, "required": ["a"],
            "additionalProperties": False}}}
        with qsf.OpenAI(qsf.load(calls(), threads=1)) as client:
            ask = {**ASK, "tools": [tool], "extra_body": {"template": TEMPLATE}, "parallel_tool_calls": False}
            response = self.read(ChatCompletion, client.chat.completions.create(**ask))
            call = response.choices[0].message.tool_calls[0]
            self.assertEqual((response.choices[0].finish_reason, call.function.name), ("tool_calls", "add"))
            self.assertEqual(json.loads(call.function.arguments), {"a": "2"})
            chunks = [self.read(ChatCompletionChunk, one)
                      for one in client.chat.completions.create(stream=True, **ask)]
            calls_ = [one for chunk in chunks for one in chunk.choices[0].delta.tool_calls or []]
            self.assertEqual([(one.index, one.function.name) for one in calls_], [(0, "add")])

    def test_several_answers_differ(self):
        with qsf.OpenAI(qsf.load(tiny(), threads=1)) as client:
            ask = {**ASK, "temperature": 1.5, "n": 3, "max_tokens": 12, "seed": 4}
            response = client.chat.completions.create(**ask)
            self.read(ChatCompletion, response)
            self.assertEqual(len({one.message.content for one in response.choices}), 3)
            self.assertEqual([one.finish_reason for one in response.choices], ["length"] * 3)

    def test_an_object_of_a_pydantic_model(self):
        import pydantic

        class Yes(pydantic.BaseModel):
            yes: bool
        with qsf.OpenAI(qsf.load(tiny(), threads=1)) as client:
            response = client.chat.completions.parse(**ASK, response_format=Yes)
            self.assertIsInstance(response.choices[0].message.parsed, Yes)

    def test_completions(self):
        response = self.client.completions.create(model="x", prompt=["Hi\n", "Hi\n"], temperature=0,
                                                  logprobs=1, echo=True)
        read = self.read(Completion, response)
        self.assertEqual([one.text for one in read.choices], ["Hi\nHello world."] * 2)
        self.assertEqual(read.choices[0].logprobs.tokens, ["Hello", " world."])
        chunks = list(self.client.completions.create(model="x", prompt="Hi\n", temperature=0, stream=True))
        read = [Completion.construct(**one) for one in chunks]          # null until the end, as OpenAI's
        self.assertEqual("".join(one.choices[0].text for one in read), "Hello world.")
        self.assertEqual(read[-1].choices[0].finish_reason, "stop")
        with qsf.OpenAI(qsf.load(endless(), threads=1)) as client:
            self.assertEqual(client.completions.create(prompt="x\n").usage.completion_tokens, 16)

    def test_embeddings(self):
        response = self.client.embeddings.create(model="x", input=["one", "two"])
        read = self.read(CreateEmbeddingResponse, response)
        np.testing.assert_allclose(read.data[1].embedding, self.model.embed("two"), atol=1e-7)
        packed = self.client.embeddings.create(model="x", input="one", encoding_format="base64")
        np.testing.assert_array_equal(np.frombuffer(base64.b64decode(packed.data[0].embedding), np.float32),
                                      self.model.embed("one"))

    def test_models(self):
        self.assertEqual(self.read(ModelType, self.client.models.list().data[0]).id, "a name")

    def test_what_openai_marks_as_not_given_is_not_given(self):
        mark = getattr(openai, "omit", getattr(openai, "NOT_GIVEN", None))
        response = self.client.chat.completions.create(top_p=mark, seed=None, user="me", **ASK)
        self.assertEqual(response.choices[0].message.content, "Hello world.")
        with self.assertRaisesRegex(qsf.ArgumentError, "max_tokens"):
            self.client.chat.completions.create(max_new_tokens=3, **ASK)
        with self.assertRaisesRegex(qsf.ArgumentError, "the model is 1"):
            qsf.OpenAI(1)

    def test_asyncio(self):
        async def main():
            client = qsf.AsyncOpenAI(self.model)
            whole = await client.chat.completions.create(**ASK)
            stream = await client.chat.completions.create(stream=True, **ASK)
            text = "".join([chunk.choices[0].delta.get("content", "") async for chunk in stream])
            more = await client.completions.create(prompt="Hi\n", temperature=0)
            vectors = await client.embeddings.create(input="one")
            listed = [one.id async for one in client.models.list()]
            self.assertEqual([one.id async for one in await client.models.list()], listed)
            return (whole.choices[0].message.content, text, more.choices[0].text,
                    len(vectors.data[0].embedding))
        self.assertEqual(asyncio.run(main()), ("Hello world.",) * 3 + (self.model.info.embedding,))

    def test_a_client_frees_the_model_that_it_has_loaded(self):
        with qsf.OpenAI(str(hello())) as client:
            self.assertEqual(client.chat.completions.create(**ASK).choices[0].message.content, "Hello world.")
        with self.assertRaises(qsf.QsfError):
            client.chat.completions.create(**ASK)
        with qsf.OpenAI(self.model) as client:
            pass
        self.assertEqual(client.chat.completions.create(**ASK).choices[0].message.content, "Hello world.")

    def test_forms_of_older_code(self):
        self.assertEqual([one.id for one in self.client.models.list()],
                         [self.client.models.retrieve("any").id])
        with self.assertRaisesRegex(qsf.ArgumentError, "pydantic"):
            self.client.beta.chat.completions.parse(response_format={}, **ASK)
        done = self.client.with_options(timeout=3).chat.completions.create(
            modalities=["text"], verbosity="low", **ASK)
        self.assertEqual(json.loads(done.model_dump_json(indent=2)), done)
        done = self.client.completions.create(prompt="Hi\n", temperature=0, best_of=1)
        self.assertEqual(done.choices[0].text, "Hello world.")


class LlamaCpp(unittest.TestCase):
    def setUp(self):
        self.llama = Llama(str(hello()), n_ctx=256, n_threads=1, verbose=False, n_gpu_layers=-1,
                           chat_format="chatml")
        self.addCleanup(self.llama.close)

    def test_a_call(self):
        done = self.llama("Hi\n", max_tokens=32, stop=["Q:"], echo=True, temperature=0)
        self.assertEqual(done["choices"][0]["text"], "Hi\nHello world.")
        self.assertEqual(done["usage"]["completion_tokens"], 2)
        texts = [one["choices"][0]["text"] for one in self.llama("Hi\n", stream=True, temperature=0)]
        self.assertEqual("".join(texts), "Hello world.")

    def test_a_chat(self):
        done = self.llama.create_chat_completion(messages=[{"role": "user", "content": "Hi"}], temperature=0)
        self.assertEqual(done["choices"][0]["message"]["content"], "Hello world.")
        pieces = self.llama.create_chat_completion(messages=[{"role": "user", "content": "Hi"}], stream=True)
        self.assertEqual("".join(one["choices"][0]["delta"].get("content", "") for one in pieces),
                         "Hello world.")

    def test_tokens_are_bytes_and_vectors_are_lists(self):
        ids = self.llama.tokenize(b"Hi\n")
        self.assertEqual(self.llama.detokenize(ids), b"Hi\n")
        answer = list(self.llama.generate(ids, temp=0, reset=True))
        self.assertEqual(self.llama.detokenize(answer), b"Hello world.")
        self.assertEqual([len(one) for one in self.llama.embed(["a", "b"])], [self.llama.n_embd()] * 2)
        self.assertEqual(len(self.llama.create_embedding("a")["data"][0]["embedding"]), self.llama.n_embd())
        self.assertEqual((self.llama.n_ctx(), self.llama.n_vocab() > 256), (256, True))

    def test_grammars(self):
        llama = Llama(str(tiny()), n_threads=1)
        self.addCleanup(llama.close)
        ok = llama("x", grammar=LlamaGrammar.from_string('root ::= "ok"'))
        self.assertEqual(ok["choices"][0]["text"], "ok")
        form = {"type": "json_object", "schema": {"enum": ["yes"]}}
        done = llama.create_chat_completion([{"role": "user", "content": "x"}], response_format=form)
        self.assertEqual(json.loads(done["choices"][0]["message"]["content"]), "yes")

    def test_schemas_are_closed(self):
        form = {"properties": {"enum": {"type": "object", "properties": {}},
                               "b": {"enum": [{"properties": 1}]}},
                "$defs": {"c": {"properties": {}, "additionalProperties": True}},
                "anyOf": [{"properties": {}}]}
        self.assertEqual(llama_cpp._closed(form), {
            "properties": {"enum": {"type": "object", "properties": {}, "additionalProperties": False},
                           "b": {"enum": [{"properties": 1}]}},
            "$defs": {"c": {"properties": {}, "additionalProperties": True}},
            "anyOf": [{"properties": {}, "additionalProperties": False}], "additionalProperties": False})

    def test_parameters_by_other_names(self):
        llama = Llama(str(hello()), n_threads=1, type_k=8, type_v=8, chat_format="qwen", draft_model=None)
        self.addCleanup(llama.close)
        llama.set_cache(llama_cpp.LlamaRAMCache(capacity_bytes=1))
        llama.set_seed(1)
        done = llama.create_chat_completion([{"role": "user", "content": "x"}], model="any", user="me")
        self.assertEqual(done["choices"][0]["message"]["content"], "Hello world.")
        self.assertEqual(llama.detokenize([llama.token_nl()]), b"\n")
        self.assertEqual(llama.metadata["general.name"], "script")
        with self.assertRaisesRegex(ValueError, "the context 512"):
            llama("word " * 600)

    def test_models_by_name(self):
        asked = []
        with mock.patch.object(llama_cpp, "pull", lambda name: asked.append(name) or str(hello())):
            for file in "a-q8_0.gguf", "*Q8_0.gguf", "*q4_k_m*", None:
                Llama.from_pretrained("owner/repo", file, n_threads=1).close()
            self.assertRaises(qsf.ArgumentError, Llama.from_pretrained, "owner/repo", "*.gguf")
        self.assertEqual(asked, ["hf:owner/repo/a-q8_0.gguf", "hf:owner/repo:Q8_0", "hf:owner/repo:q4_k_m",
                                 "hf:owner/repo"])

    def test_what_is_not_there_is_named(self):
        with self.assertRaisesRegex(qsf.ArgumentError, "draft_model"):
            Llama(str(hello()), draft_model=1)
        with self.assertRaisesRegex(qsf.ArgumentError, "stopping_criteria"):
            self.llama("Hi", stopping_criteria=[1])


if __name__ == "__main__":
    unittest.main()
