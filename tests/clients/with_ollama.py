"""What users of the Python package ollama do.
SPDX-License-Identifier: MIT
"""
import asyncio

import ollama
from pydantic import BaseModel

from steps import *


class Person(BaseModel):
    name: str
    age: int


HEADERS = {"Authorization": f"Bearer {KEY}"}
tiny, smol, qwen = (ollama.Client(host=url, headers=HEADERS) for url in (TINY, SMOL, QWEN))
cold = {"temperature": 0, "num_predict": 8, "num_ctx": 2048}

step("models")
assert [m.model for m in tiny.list().models] == ["tiny"]
assert tiny.ps().models[0].context_length > 1000
assert "completion" in smol.show("smollm2").capabilities
assert {"tools", "insert"} <= set(qwen.show("qwen").capabilities)
assert qwen.show("qwen").modelinfo["qwen2.embedding_length"] == 896

step("chat")
whole = smol.chat("smollm2", messages=CAPITAL, options=cold)
assert "Paris" in whole.message.content and whole.done and whole.done_reason in ("stop", "length")
assert whole.prompt_eval_count > 8 and 0 < whole.eval_count <= 8 and whole.total_duration > 0

step("chat, streamed")
parts = list(smol.chat("smollm2", messages=CAPITAL, options=cold, stream=True))
assert "".join(p.message.content for p in parts) == whole.message.content
assert parts[-1].eval_count == whole.eval_count and not parts[0].done

step("generate")
ask = {"model": "smollm2", "options": cold}
one = smol.generate(**ask, prompt=CAPITAL[0]["content"], system="Be brief.")
assert "Paris" in one.response
parts = smol.generate(**ask, prompt=CAPITAL[0]["content"], system="Be brief.", stream=True)
assert "".join(p.response for p in parts) == one.response
assert smol.generate(**ask, prompt="1, 2, 3,", raw=True).response
assert "return" not in qwen.generate("qwen", "def add(a, b):\n    return", suffix="\n\nprint(add(1, 2))\n",
                                     options=cold).response

step("stop, seed, logprobs")
hot = {"temperature": 1.2, "seed": 7, "num_predict": 12, "stop": ["\n\n\n"]}
a, b = (tiny.chat("tiny", messages=HI, options=hot).message.content for _ in range(2))
assert a == b
three = {"num_predict": 3, "temperature": 0}
told = tiny.chat("tiny", messages=HI, options=three, logprobs=True, top_logprobs=2)
assert len(told.logprobs) == 3 and len(told.logprobs[0].top_logprobs) == 2

step("structured output")
shaped = {"temperature": 0, "num_predict": 40}
answer = qwen.chat("qwen", messages=PERSON, format=Person.model_json_schema(), options=shaped)
is_ada(json.loads(answer.message.content))
json.loads(qwen.chat("qwen", messages=PERSON, format="json", options={"temperature": 0}).message.content)


def weather(city: str) -> str:
    """The weather in a city

    Args:
      city: Its name
    """
    return RESULT if "Oslo" in city else "unknown"


step("tools")
called = qwen.chat("qwen", messages=WEATHER, tools=[weather], options=shaped)
(call,) = called.message.tool_calls
assert call.function.name == "weather"
asks_oslo(call.function.arguments)
said = [*WEATHER, called.message, {"role": "tool", "tool_name": "weather", "content": RESULT}]
assert qwen.chat("qwen", messages=said, options=shaped).message.content
parts = qwen.chat("qwen", messages=WEATHER, tools=[weather], options=shaped, stream=True)
asks_oslo([c for p in parts for c in p.message.tool_calls or ()][0].function.arguments)

step("embeddings")
both = tiny.embed("tiny", ["One text", "and another"]).embeddings
assert len(both) == 2 and list(tiny.embeddings("tiny", "and another").embedding) == list(both[1])

step("loading")
assert tiny.generate("tiny").done_reason == "load" and tiny.pull("tiny").status == "success"

step("errors")
e = raises(ollama.ResponseError, lambda: ollama.Client(host=TINY).list())
assert e.status_code == 401
e = raises(ollama.ResponseError, lambda: tiny.pull("none"))
assert e.status_code == 404 and "none" in e.error
e = raises(ollama.ResponseError, lambda: tiny.chat("tiny", messages=[
    {"role": "user", "content": "What is it?", "images": [b"no picture"]}]))
assert e.status_code == 400 and "images" in e.error
e = raises(ollama.ResponseError, lambda: tiny.chat("tiny", messages=HI, options={"seed": "x"}))
assert e.status_code == 400 and "seed" in e.error
wrong = tiny.chat("tiny", messages=HI, options={"top_p": 7}, stream=True)
assert raises(ollama.ResponseError, lambda: next(wrong)).status_code == 400

step("a full queue")
full(1)
assert raises(ollama.ResponseError, lambda: tiny.chat("tiny", messages=HI, options=cold)).status_code == 429

step("a stream that is left")
stream = tiny.generate("tiny", "x", raw=True, options={"num_predict": -1, "temperature": 0}, stream=True)
next(stream)
stream.close()
gone()


async def together():
    client = ollama.AsyncClient(host=TINY, headers=HEADERS)
    answers = await asyncio.gather(*(client.chat(
        "tiny", messages=[{"role": "user", "content": f"Number {i}"}], options=cold) for i in range(8)))
    stream = await client.chat("tiny", messages=[{"role": "user", "content": "Number 3"}], options=cold,
                               stream=True)
    assert "".join([p.message.content async for p in stream]) == answers[3].message.content
    return [a.message.content for a in answers]

step("eight at once")
assert len(set(asyncio.run(together()))) > 3
