"""What users of litellm do.
SPDX-License-Identifier: MIT
"""
import asyncio
import json

import litellm
from pydantic import BaseModel

from steps import *


class Person(BaseModel):
    name: str
    age: int


def at(url, model, **more):
    return {"model": f"openai/{model}", "api_base": f"{url}/v1", "api_key": KEY, **more}


cold = {"temperature": 0, "max_tokens": 8}
once = at(TINY, "tiny", messages=HI, max_tokens=4, num_retries=0, max_retries=0)

step("chat")
whole = litellm.completion(**at(SMOL, "smollm2"), messages=CAPITAL, **cold)
assert "Paris" in whole.choices[0].message.content and whole.usage.total_tokens > 8

step("chat, streamed")
parts = list(litellm.completion(**at(SMOL, "smollm2"), messages=CAPITAL, **cold, stream=True,
                                stream_options={"include_usage": True}))
assert "".join(p.choices[0].delta.content or "" for p in parts) == whole.choices[0].message.content
assert parts[-1].usage.completion_tokens == whole.usage.completion_tokens

step("completions")
ask = at(TINY, "tiny", prompt="Once", **cold)
ask["model"] = "text-completion-openai/tiny"
text = litellm.text_completion(**ask).choices[0].text
assert text and "".join(p.choices[0].text or "" for p in litellm.text_completion(**ask, stream=True)) == text

step("n, seed, stop, logprobs")
a = litellm.completion(**at(TINY, "tiny"), messages=HI, max_tokens=12, n=2, seed=7, temperature=1.2,
                       logprobs=True, top_logprobs=2, stop=["\n\n\n"])
assert len({c.message.content for c in a.choices}) == 2
assert len(a.choices[0].logprobs.content[0].top_logprobs) == 2

step("structured output")
a = litellm.completion(**at(QWEN, "qwen"), messages=PERSON, temperature=0, max_tokens=40,
                       response_format=Person)
is_ada(json.loads(a.choices[0].message.content))

step("tools")
ask = at(QWEN, "qwen", temperature=0, max_tokens=40, tools=[
    {"type": "function", "function": {"name": "weather", "description": ABOUT, "parameters": CITY}}])
message = litellm.completion(**ask, messages=WEATHER).choices[0].message
call = message.tool_calls[0]
asks_oslo(call.function.arguments)
said = [*WEATHER, message, {"role": "tool", "tool_call_id": call.id, "content": RESULT}]
assert litellm.completion(**ask, messages=said, tool_choice="none").choices[0].message.content
parts = list(litellm.completion(**ask, messages=WEATHER, tool_choice="required", stream=True,
                                parallel_tool_calls=False))
built = litellm.stream_chunk_builder(parts)
asks_oslo(built.choices[0].message.tool_calls[0].function.arguments)

step("Anthropic's interface")
ask = {"model": "anthropic/smollm2", "api_base": SMOL, "api_key": KEY, "messages": CAPITAL, **cold}
assert "Paris" in litellm.completion(**ask).choices[0].message.content
assert "Paris" in "".join(p.choices[0].delta.content or "" for p in litellm.completion(**ask, stream=True))

step("embeddings")
a = litellm.embedding(**at(SMOL, EMBEDDINGS), input=["One text", "and another"])
assert len(a.data) == 2 and len(a.data[0]["embedding"]) > 8

step("errors")
raises(litellm.AuthenticationError, lambda: litellm.completion(**once | {"api_key": "sk-wrong"}))
assert litellm.completion(**once | {"model": "openai/none"}).choices
raises(litellm.BadRequestError, lambda: litellm.completion(**once, seed="x"))
raises(litellm.ContextWindowExceededError, lambda: litellm.completion(**once | {"messages": HI * 3000}))

step("a full queue")
full(2)
raises(litellm.RateLimitError, lambda: litellm.completion(**once))
a = litellm.completion(**at(TINY, "tiny"), messages=HI, max_tokens=4, max_retries=2)
assert a.usage.completion_tokens == 4

step("a deadline of the client")
raises(litellm.Timeout, lambda: litellm.completion(**once | {"timeout": 0.5, **LONG}))
gone()


async def together():
    return await asyncio.gather(*(litellm.acompletion(**at(TINY, "tiny"), **cold, messages=[
        {"role": "user", "content": f"Number {i}"}]) for i in range(8)))

step("eight at once")
assert len({a.choices[0].message.content for a in asyncio.run(together())}) > 3
