"""What users of the Python package anthropic do.
SPDX-License-Identifier: MIT
"""
import asyncio

import anthropic
from pydantic import BaseModel

from steps import *


class Person(BaseModel):
    name: str
    age: int


tiny, smol, qwen = (anthropic.Anthropic(base_url=url, api_key=KEY) for url in (TINY, SMOL, QWEN))
once = anthropic.Anthropic(base_url=TINY, api_key=KEY, max_retries=0)
cold = {"max_tokens": 8, "extra_body": {"temperature": 0}}

step("models")
assert [m.id for m in tiny.models.list()] == ["tiny"]
assert tiny.models.retrieve("tiny").type == "model"
raises(anthropic.NotFoundError, lambda: tiny.models.retrieve("none"))

step("messages")
ask = {"model": "smollm2", "messages": CAPITAL, **cold}
whole = smol.messages.create(**ask, system="Be brief.", metadata={"user_id": "7"},
                             cache_control={"type": "ephemeral"})
assert "Paris" in whole.content[0].text
assert whole.usage.input_tokens + whole.usage.cache_read_input_tokens > 8
blocks = [{"role": "user", "content": [{"type": "text", "text": CAPITAL[0]["content"],
                                        "cache_control": {"type": "ephemeral"}}]}]
same = smol.messages.create(**ask | {"messages": blocks}, system=[
    {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}])
assert same.content[0].text == whole.content[0].text
begun = [*CAPITAL, {"role": "assistant", "content": "The capital is"}]
assert "Paris" in smol.messages.create(**ask | {"messages": begun}).content[0].text

step("messages, streamed")
with smol.messages.stream(**ask, system="Be brief.") as stream:
    assert "".join(stream.text_stream) == whole.content[0].text
    last = stream.get_final_message()
    assert last.usage.output_tokens == whole.usage.output_tokens and last.stop_reason == whole.stop_reason
names = [e.type for e in smol.messages.create(**ask, stream=True)]
assert names[0] == "message_start" and names[-1] == "message_stop"

step("stop_sequences")
stop = whole.content[0].text[2:4]
a = smol.messages.create(**ask, system="Be brief.", stop_sequences=[stop])
assert a.stop_reason == "stop_sequence" and a.stop_sequence == stop, a
with smol.messages.stream(**ask, system="Be brief.", stop_sequences=[stop]) as stream:
    a = stream.get_final_message()
assert a.stop_reason == "stop_sequence" and a.stop_sequence == stop, a

step("count_tokens")
n = smol.messages.count_tokens(model="smollm2", messages=CAPITAL, system="Be brief.").input_tokens
assert n == whole.usage.input_tokens + whole.usage.cache_read_input_tokens

step("structured output")
ask = {"model": "qwen", "max_tokens": 40, "extra_body": {"temperature": 0}}
is_ada(qwen.messages.parse(**ask, messages=PERSON, output_format=Person).parsed_output.model_dump())

step("tools")
ask["tools"] = [{"name": "weather", "description": ABOUT, "input_schema": CITY}]
message = qwen.messages.create(**ask, messages=WEATHER)
assert message.stop_reason == "tool_use"
use = message.content[-1]
asks_oslo(use.input)
said = [*WEATHER, {"role": "assistant", "content": message.content},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": use.id, "content": RESULT}]}]
assert qwen.messages.create(**ask, messages=said, tool_choice={"type": "none"}).content[0].text
one = {"disable_parallel_tool_use": True}
with qwen.messages.stream(**ask, messages=WEATHER, tool_choice={"type": "any", **one}) as stream:
    assert "input_json" in {e.type for e in stream}
    asks_oslo(stream.get_final_message().content[-1].input)
a = qwen.messages.create(**ask, messages=WEATHER, tool_choice={"type": "tool", "name": "weather", **one})
asks_oslo(a.content[-1].input)


@anthropic.beta_tool
def weather(city: str) -> str:
    """The weather in a city"""
    return RESULT if "Oslo" in city else "unknown"


runner = qwen.beta.messages.tool_runner(model="qwen", max_tokens=40, messages=WEATHER, tools=[weather],
                                        max_iterations=2, thread=False, extra_body={"temperature": 0})
assert len(list(runner)) == 2                   # a call, and what the model says to its result

step("errors")
wrong = anthropic.Anthropic(base_url=TINY, api_key="sk-wrong", max_retries=0)
ask = {"model": "tiny", "messages": HI, "max_tokens": 4}
e = raises(anthropic.AuthenticationError, lambda: wrong.messages.create(**ask))
assert e.body["error"]["type"] == "authentication_error" and e.body["type"] == "error", e.body
assert once.messages.create(**ask | {"model": "claude-sonnet-4-5"}).model == "tiny"
e = raises(anthropic.BadRequestError, lambda: once.messages.create(**ask, extra_body={"seed": "x"}))
assert e.body["error"]["type"] == "invalid_request_error" and "seed" in e.message
a = once.messages.with_raw_response.create(**ask, extra_body={"frobnicate": 1})
assert a.headers["x-qsf-ignored"] == "frobnicate"
raises(anthropic.NotFoundError, lambda: once.post("/v1/messages/nothing", body={}, cast_to=dict))

step("a full queue")
full(2)
e = raises(anthropic.RateLimitError, lambda: once.messages.create(**ask))
assert e.body["error"]["type"] == "rate_limit_error" and int(e.response.headers["retry-after"]) >= 1
assert tiny.messages.create(**ask).usage.output_tokens == 4

step("a deadline of the client")
raises(anthropic.APITimeoutError, lambda: once.with_options(timeout=0.5).messages.create(
    model="tiny", messages=HI, **LONG))
gone()

step("a stream that is left")
with tiny.messages.stream(model="tiny", messages=HI, **LONG) as stream:
    next(stream.text_stream)
gone()


async def together():
    async with anthropic.AsyncAnthropic(base_url=TINY, api_key=KEY) as client:
        answers = await asyncio.gather(*(client.messages.create(
            model="tiny", messages=[{"role": "user", "content": f"Number {i}"}], **cold) for i in range(8)))
        async with client.messages.stream(model="tiny", messages=[{"role": "user", "content": "Number 3"}],
                                          **cold) as stream:
            assert "".join([t async for t in stream.text_stream]) == answers[3].content[0].text
        return [a.content[0].text for a in answers]

step("eight at once")
assert len(set(asyncio.run(together()))) > 3
