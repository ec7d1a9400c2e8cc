"""What users of langchain-openai do.
SPDX-License-Identifier: MIT
"""
import asyncio

import openai
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAI, OpenAIEmbeddings
from pydantic import BaseModel

from steps import *


class Person(BaseModel):
    name: str
    age: int


@tool
def weather(city: str) -> str:
    """The weather in a city"""
    return RESULT if "Oslo" in city else "unknown"


def chat(url, model, **more):
    return ChatOpenAI(**{"base_url": f"{url}/v1", "api_key": KEY, "model": model, "temperature": 0,
                         "max_tokens": 8, **more})


smol, qwen = chat(SMOL, "smollm2"), chat(QWEN, "qwen", max_tokens=40)
question = CAPITAL[0]["content"]

step("invoke")
whole = smol.invoke([("system", "Be brief."), ("human", question)])
assert "Paris" in whole.content and whole.usage_metadata["total_tokens"] > 8

step("stream")
parts = list(chat(SMOL, "smollm2", stream_usage=True).stream([("system", "Be brief."), ("human", question)]))
assert "".join(p.content for p in parts) == whole.content
assert sum(p.usage_metadata["output_tokens"] for p in parts if p.usage_metadata) == whole.usage_metadata[
    "output_tokens"]

step("responses")
other = chat(SMOL, "smollm2", use_responses_api=True)
assert "Paris" in other.invoke(question).text
assert "Paris" in "".join(p.text for p in other.stream(question))

step("completions")
text = OpenAI(base_url=f"{TINY}/v1", api_key=KEY, model="tiny", temperature=0, max_tokens=6)
assert text.invoke("Once") == "".join(text.stream("Once")) != ""

step("n, seed, stop, logprobs")
a = chat(TINY, "tiny", n=2, seed=3, temperature=1.2).generate([[HumanMessage("Say hi")]])
assert len({g.text for g in a.generations[0]}) == 2
stop = whole.content[2:4]
assert stop not in smol.bind(stop=[stop]).invoke([("system", "Be brief."), ("human", question)]).content
a = chat(TINY, "tiny").bind(logprobs=True, top_logprobs=2).invoke("Say hi")
assert len(a.response_metadata["logprobs"]["content"][0]["top_logprobs"]) == 2

step("structured output")
for method in "json_schema", "function_calling":
    is_ada(qwen.with_structured_output(Person, method=method).invoke(PERSON).model_dump())
a = qwen.with_structured_output(Person, method="json_mode", include_raw=True).invoke(PERSON)
assert a["raw"].content.startswith("{")

step("tools")
able = qwen.bind_tools([weather])
said = [HumanMessage(WEATHER[0]["content"])]
said.append(able.invoke(said))
call = said[-1].tool_calls[0]
asks_oslo(call["args"])
said.append(weather.invoke(call))
assert isinstance(said[-1], ToolMessage)
assert qwen.bind_tools([weather], tool_choice="none").invoke(said).content
a = qwen.bind_tools([weather], tool_choice="any", parallel_tool_calls=False).invoke(said[:1])
asks_oslo(a.tool_calls[0]["args"])
parts = None
for p in qwen.bind_tools([weather], tool_choice="weather", parallel_tool_calls=False).stream(said[:1]):
    parts = p if parts is None else parts + p
asks_oslo(parts.tool_calls[0]["args"])
able = chat(QWEN, "qwen", max_tokens=40, use_responses_api=True).bind_tools([weather])
said = said[:1] + [able.invoke(said[:1])]
said.append(weather.invoke(said[-1].tool_calls[0]))
assert able.invoke(said).usage_metadata["output_tokens"]

step("embeddings")
e = OpenAIEmbeddings(base_url=f"{SMOL}/v1", api_key=KEY, model=EMBEDDINGS,
                     check_embedding_ctx_length=False)
assert len(e.embed_query("One text")) == len(e.embed_documents(["One text", "another"])[1]) > 8

step("errors")
once = chat(TINY, "tiny", max_retries=0)
raises(openai.AuthenticationError, lambda: chat(TINY, "tiny", api_key="sk-wrong").invoke("Say hi"))
assert chat(TINY, "gpt-4o-mini", max_tokens=2).invoke("Say hi").response_metadata["model_name"] == "tiny"
raises(openai.BadRequestError, lambda: once.bind(seed="x").invoke("Say hi"))
raises(openai.BadRequestError, lambda: once.invoke("Say hi " * 3000))

step("a full queue")
full(2)
raises(openai.RateLimitError, lambda: once.invoke("Say hi"))
assert chat(TINY, "tiny").invoke("Say hi").usage_metadata["output_tokens"] == 8

step("a deadline of the client")
hasty = chat(TINY, "tiny", max_retries=0, timeout=0.5, **LONG)
raises(openai.APITimeoutError, lambda: hasty.invoke("Say hi"))
gone()

step("a stream that is left")
stream = chat(TINY, "tiny", **LONG).stream("Say hi")
next(stream), next(stream)
stream.close()
gone()

step("eight at once")
texts = [f"Number {i}" for i in range(8)]
assert len({a.content for a in chat(TINY, "tiny").batch(texts)}) > 3
assert len(asyncio.run(chat(TINY, "tiny").abatch(texts))) == 8
