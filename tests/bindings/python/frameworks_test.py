#!/usr/bin/env python3
"""The Python package inside other people's: LangChain and the command llm, unmodified, with models of this
process.
SPDX-License-Identifier: MIT

    frameworks_test.py LIBQSF_PYTHON [unittest options]

Their packages are those of the server's clients (tests/clients/clients.lock), which come after this Python's
own.
"""
import asyncio, json, os, subprocess, sys, unittest

from python_case import CHAT, FOLDER, PACKAGE, ROOT, TEMPLATE, calls, endless, hello, tiny
import qsf

sys.path.append(str(ROOT / "tests" / "clients"))
import packages
try:
    found = packages.install("clients")
except (OSError, subprocess.CalledProcessError) as wrong:
    print(f"skip: the packages of clients.lock cannot be installed: {wrong}")
    sys.exit(77)
OTHERS = [*map(str, found.glob("lib/python*/site-packages")), str(found / "Lib" / "site-packages")]
sys.path += OTHERS
import openai
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.tools import tool
from pydantic import BaseModel
from qsf.langchain import ChatQsf, QsfEmbeddings


class Yes(BaseModel):
    yes: bool


@tool
def add(a: str) -> str:
    """Adds."""
    return a + a


ADD = {"name": "add", "parameters": {"type": "object", "properties": {"a": {"enum": ["2"]}},
                                     "required": ["a"], "additionalProperties": False}}


class LangChain(unittest.TestCase):
    def chat(self, path, **options):
        model = ChatQsf(model=str(path), threads=1, **{**CHAT, **options})
        self.addCleanup(model.close)
        return model

    def test_invoke_and_stream(self):
        model = self.chat(hello())
        whole = model.invoke([("system", "Be brief."), ("human", "Hi")])
        self.assertEqual((whole.content, whole.response_metadata["finish_reason"]), ("Hello world.", "stop"))
        usage = whole.usage_metadata
        self.assertEqual((usage["output_tokens"], usage["total_tokens"]), (2, usage["input_tokens"] + 2))
        parts = list(model.stream("Hi"))
        self.assertEqual([part.content for part in parts if part.content], ["Hello", " world."])
        total = parts[0]
        for part in parts[1:]:
            total += part
        self.assertEqual((total.content, total.usage_metadata["output_tokens"]), ("Hello world.", 2))
        self.assertEqual(total.response_metadata["finish_reason"], "stop")
        self.assertEqual(model.invoke("Hi", stop=["world"]).content, "Hello ")
        said = model.bind(logprobs=True, top_logprobs=2).invoke("Hi").response_metadata["logprobs"]["content"]
        self.assertEqual([(one["token"], len(one["top_logprobs"])) for one in said],
                         [("Hello", 2), (" world.", 2)])

    def test_a_chain_and_asyncio(self):
        prompt = ChatPromptTemplate.from_messages([("human", "{word}")])
        chain = prompt | self.chat(hello()) | StrOutputParser()
        self.assertEqual(chain.invoke({"word": "Hi"}), "Hello world.")
        self.assertEqual(chain.batch([{"word": "Hi"}, {"word": "Ho"}]), ["Hello world."] * 2)

        async def main():
            pieces = [piece async for piece in chain.astream({"word": "Hi"})]
            return await chain.ainvoke({"word": "Hi"}), "".join(pieces)
        self.assertEqual(asyncio.run(main()), ("Hello world.",) * 2)

    def test_tools(self):
        model = self.chat(calls(), template=TEMPLATE)
        able = model.bind_tools([ADD], parallel_tool_calls=False)
        answer = able.invoke("x")
        self.assertEqual([(one["name"], one["args"]) for one in answer.tool_calls], [("add", {"a": "2"})])
        self.assertEqual(answer.response_metadata["finish_reason"], "tool_calls")
        result = add.invoke(answer.tool_calls[0])
        self.assertIsInstance(result, ToolMessage)
        said = model._asked([HumanMessage("x"), answer, result], None, {})[0]
        self.assertIn("22", model._loaded.render(said, template=TEMPLATE))
        total = None
        for part in able.stream("x"):
            total = part if total is None else total + part
        self.assertEqual(total.tool_calls[0]["args"], {"a": "2"})
        forced = self.chat(tiny(), max_tokens=60).bind_tools([ADD], tool_choice="any",
                                                             parallel_tool_calls=False)
        self.assertEqual(forced.invoke("x").tool_calls[0]["name"], "add")

    def test_structured_output(self):
        model = self.chat(tiny(), max_tokens=60)
        self.assertIsInstance(model.with_structured_output(Yes).invoke("x"), Yes)
        for method in "json_schema", "function_calling":
            read = model.with_structured_output(Yes, method=method, include_raw=True).invoke("x")
            self.assertIsInstance(read["raw"], AIMessage, method)
            self.assertIsInstance(read["parsed"], Yes, read)
        schema = {"title": "Answer", "type": "object", "properties": {"a": {"enum": ["b"]}},
                  "required": ["a"]}
        self.assertEqual(model.with_structured_output(schema).invoke("x"), {"a": "b"})

    def test_a_model_that_is_loaded_and_embeddings(self):
        with qsf.load(endless(), threads=1) as loaded:
            model = ChatQsf(model=loaded, max_tokens=3, **CHAT)
            self.assertEqual(model.invoke("x").response_metadata["finish_reason"], "length")
            self.assertEqual(model.get_num_tokens("a b"), len(loaded.tokenize("a b")))
            rows = QsfEmbeddings(loaded).embed_documents(["one", "two"])
            self.assertEqual(rows[1], QsfEmbeddings(loaded).embed_query("two"))
            for wrong, says in (({"threads": 1}, "option of load"), ({"max_new_tokens": 1}, "max_tokens")):
                with self.assertRaisesRegex(ValueError, says):
                    ChatQsf(model=loaded, **wrong)


class OpenAIsOwnClient(unittest.TestCase):
    """What frameworks over openai do: its client, with a transport into this process."""

    @classmethod
    def setUpClass(cls):
        from qsf.transport import async_http_client, http_client
        cls.model = qsf.load(hello(), threads=1)
        cls.clients = http_client(cls.model, "hello"), async_http_client(cls.model, "hello")
        cls.ask = {"messages": [{"role": "user", "content": "Hi"}], "model": "hello", "temperature": 0,
                   "extra_body": {"template": "chatml"}}

    @classmethod
    def tearDownClass(cls):
        cls.model.close()

    def test_the_client(self):
        client = openai.OpenAI(api_key="none", http_client=self.clients[0])
        whole = client.chat.completions.create(**self.ask)
        self.assertEqual((whole.choices[0].message.content, whole.usage.completion_tokens),
                         ("Hello world.", 2))
        with client.chat.completions.create(stream=True, **self.ask) as stream:
            self.assertEqual("".join(one.choices[0].delta.content or "" for one in stream), "Hello world.")
        with client.chat.completions.create(stream=True, **self.ask) as stream:
            next(iter(stream))                      # and is left
        self.assertEqual(client.embeddings.create(model="x", input="one").data[0].embedding[:3],
                         self.model.embed("one").tolist()[:3])
        self.assertEqual([one.id for one in client.models.list()], ["hello"])
        self.assertEqual(client.models.retrieve("any").id, "hello")
        with self.assertRaisesRegex(openai.BadRequestError, "temperature"):
            client.chat.completions.create(**{**self.ask, "temperature": -1})
        with self.assertRaisesRegex(openai.BadRequestError, "image_url"):
            client.chat.completions.create(**{**self.ask, "messages": [{"role": "user", "content": [
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]}]})
        with self.assertRaises(openai.NotFoundError):
            client.images.generate(prompt="x")

    def test_asyncio(self):
        async def main():
            client = openai.AsyncOpenAI(api_key="none", http_client=self.clients[1])
            whole = await client.chat.completions.create(**self.ask)
            stream = await client.chat.completions.create(stream=True, **self.ask)
            pieces = [one.choices[0].delta.content or "" async for one in stream]
            return whole.choices[0].message.content, "".join(pieces)
        self.assertEqual(asyncio.run(main()), ("Hello world.",) * 2)

    def test_a_framework(self):
        from langchain_openai import ChatOpenAI
        chat = ChatOpenAI(model="hello", api_key="none", temperature=0, http_client=self.clients[0],
                          extra_body={"template": "chatml"})
        self.assertEqual(chat.invoke("Hi").content, "Hello world.")
        self.assertEqual("".join(part.content for part in chat.stream("Hi")), "Hello world.")


class Llm(unittest.TestCase):
    """The command, which finds the plugin by its entry point."""

    @classmethod
    def setUpClass(cls):
        cls.home = FOLDER / "llm"
        named = cls.home / "site" / "qsf-0.dist-info"           # as in the wheel
        named.mkdir(parents=True)
        text = (PACKAGE / "pyproject.toml").read_text()
        line = next(line for line in text.splitlines() if '"qsf.llm_plugin"' in line)
        (named / "METADATA").write_text("Metadata-Version: 2.1\nName: qsf\nVersion: 0\n")
        (named / "entry_points.txt").write_text("[llm]\n" + line.replace('"', "") + "\n")

        sys.path.insert(0, str(cls.home / "site"))
        os.environ["LLM_USER_PATH"] = str(cls.home)

    def llm(self, *words, code=0):
        from click.testing import CliRunner
        from llm.cli import cli
        done = CliRunner().invoke(cli, list(map(str, words)))
        self.assertEqual(done.exit_code, code, f"{done.output}{done.exception!r}")
        return done.output

    def test_the_command(self):
        cold = "-o", "temperature", "0", "-o", "threads", "1", "-o", "template"
        self.llm("qsf", "add", "hello", hello())
        self.llm("qsf", "add", "calls", calls())
        self.llm("qsf", "add", "tiny", tiny())
        self.assertIn("no such file", self.llm("qsf", "add", "none", "none.gguf", code=1))
        self.llm("qsf", "add", "named", "owner/repo:Q8_0")
        listed = self.llm("qsf", "list")
        self.assertIn(f"calls  {calls().resolve()}", listed)
        self.assertIn("named  owner/repo:Q8_0", listed)
        self.assertEqual(self.llm("-m", "hello", "-s", "Be brief.", "Hi", *cold, "chatml").strip(),
                         "Hello world.")
        self.assertIn("2 output", self.llm("-c", "And?", "-u", "-m", "hello", "--no-stream", *cold, "chatml"))
        self.assertEqual(json.loads(self.llm("-m", "tiny", "x", "--schema", "yes bool", *cold, "chatml",
                                             "-o", "max_tokens", "60")).keys(), {"yes"})
        code = ("import typing\ndef add(a: typing.Literal['2', '3']) -> str:\n    'Adds.'\n"
                "    return 'sum ' + a\n")
        said = self.llm("-m", "calls", "x", "--functions", code, "--td", "--chain-limit", "2", *cold,
                        TEMPLATE, "-o", "max_tokens", "400", code=1)       # it calls once too often
        self.assertIn("sum", said)
        self.assertIn("temperature", self.llm("-m", "hello", "Hi", "-o", "temperature", "hot", code=1))
        self.llm("qsf", "remove", "tiny")
        self.assertNotIn("tiny", self.llm("models"))

    def test_python_and_asyncio(self):
        from qsf.llm_plugin import AsyncQsfModel, QsfModel
        options = {"temperature": 0, "template": "chatml", "threads": 1}
        talk = QsfModel("hello", str(hello())).conversation()
        self.assertEqual([talk.prompt("Hi", **options).text(), talk.prompt("Ho", **options).text()],
                         ["Hello world."] * 2)
        self.assertEqual(talk.responses[-1].usage().output, 2)

        async def main():
            response = AsyncQsfModel("hello", str(hello())).prompt("Hi", **options)
            return await response.text()
        self.assertEqual(asyncio.run(main()), "Hello world.")


if __name__ == "__main__":
    unittest.main()
