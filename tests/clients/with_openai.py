"""What users of the Python package openai do.
SPDX-License-Identifier: MIT
"""
import asyncio

import openai
from pydantic import BaseModel, Field

from steps import *


def client_of(url, **more):
    return openai.OpenAI(base_url=f"{url}/v1", api_key=KEY, **more)


class Person(BaseModel):
    name: str
    age: int


class Weather(BaseModel):
    """The weather in a city"""
    city: str = Field(description="its name")


tiny, smol, qwen = client_of(TINY), client_of(SMOL), client_of(QWEN)
once = client_of(TINY, max_retries=0)
cold = {"temperature": 0, "max_tokens": 8}

step("models")
assert [m.id for m in tiny.models.list()] == ["tiny"]
assert tiny.models.retrieve("tiny").object == "model"
raises(openai.NotFoundError, lambda: tiny.models.retrieve("none"))

step("chat")
whole = smol.chat.completions.create(model="smollm2", messages=CAPITAL, **cold)
assert "Paris" in whole.choices[0].message.content and whole.usage.total_tokens > 8

step("chat, streamed")
chunks = list(smol.chat.completions.create(model="smollm2", messages=CAPITAL, **cold, stream=True,
                                           stream_options={"include_usage": True}))
assert "".join(c.choices[0].delta.content or "" for c in chunks[:-1]) == whole.choices[0].message.content
assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens and not chunks[-1].choices
with smol.chat.completions.stream(model="smollm2", messages=CAPITAL, **cold) as stream:
    assert any(e.type == "content.delta" for e in stream)
    assert stream.get_final_completion().choices[0].message.content == whole.choices[0].message.content

step("completions")
ask = {"model": "tiny", "prompt": "Once", **cold}
text = tiny.completions.create(**ask).choices[0].text
assert "".join(c.choices[0].text for c in tiny.completions.create(**ask, stream=True)) == text
assert tiny.completions.create(**ask, echo=True).choices[0].text == "Once" + text
a = tiny.completions.create(**ask | {"prompt": ["Once", "Twice"]}, logprobs=2)
assert a.choices[0].text == text and len(a.choices) == 2 and len(a.choices[1].logprobs.tokens) == 8

step("n, seed, stop")
ask = {"model": "tiny", "messages": HI, "max_tokens": 12, "n": 3, "seed": 7, "temperature": 1.2}
a, b = (tiny.chat.completions.create(**ask) for _ in range(2))
texts = [c.message.content for c in a.choices]
assert texts == [c.message.content for c in b.choices] and len(set(texts)) == 3
stop = whole.choices[0].message.content[2:4]
a = smol.chat.completions.create(model="smollm2", messages=CAPITAL, **cold, stop=[stop, "\n\n\n"])
assert a.choices[0].finish_reason == "stop" and stop not in a.choices[0].message.content

step("logprobs")
ask = {"model": "tiny", "messages": HI, **cold | {"max_tokens": 3}, "logprobs": True, "top_logprobs": 2}
content = tiny.chat.completions.create(**ask).choices[0].logprobs.content
assert len(content) == 3 and content[0].top_logprobs[0].logprob == content[0].logprob < 0
streamed = [t for c in tiny.chat.completions.create(**ask, stream=True) for t in
            (c.choices[0].logprobs.content if c.choices[0].logprobs else [])]
assert [t.bytes for t in streamed] == [t.bytes for t in content]

step("structured output")
ask = {"model": "qwen", "messages": PERSON, "temperature": 0, "max_tokens": 40}
parse = qwen.chat.completions.parse
is_ada(parse(**ask, response_format=Person).choices[0].message.parsed.model_dump())
with qwen.chat.completions.stream(**ask, response_format=Person) as stream:
    is_ada(stream.get_final_completion().choices[0].message.parsed.model_dump())
a = qwen.chat.completions.create(**ask, response_format={"type": "json_object"})
assert a.choices[0].message.content.startswith("{")

step("tools")
ask = {"model": "qwen", "messages": WEATHER, "temperature": 0, "max_tokens": 40,
       "tools": [openai.pydantic_function_tool(Weather, name="weather")]}
message = parse(**ask).choices[0].message
call = message.tool_calls[0]
assert "Oslo" in call.function.parsed_arguments.city
said = [*WEATHER, message, {"role": "tool", "tool_call_id": call.id, "content": RESULT}]
assert qwen.chat.completions.create(**ask | {"messages": said}, tool_choice="none").choices[0].message.content
a = qwen.chat.completions.create(**ask, tool_choice="required", parallel_tool_calls=False).choices[0]
assert a.finish_reason == "tool_calls" and a.message.content is None
asks_oslo(a.message.tool_calls[0].function.arguments)
with qwen.chat.completions.stream(**ask, parallel_tool_calls=False, tool_choice={
        "type": "function", "function": {"name": "weather"}}) as stream:
    names = {e.type for e in stream}
    asks_oslo(stream.get_final_completion().choices[0].message.tool_calls[0].function.arguments)
assert "tool_calls.function.arguments.delta" in names and "tool_calls.function.arguments.done" in names

step("responses")
ask = {"model": "smollm2", "input": CAPITAL, "temperature": 0, "max_output_tokens": 8}
r = smol.responses.create(**ask, instructions="Be brief.", store=False)
assert "Paris" in r.output_text and r.usage.input_tokens > 8
again = [*CAPITAL, *r.output, {"role": "user", "content": "And of Italy?"}]
assert smol.responses.create(**ask | {"input": again}).output_text
with smol.responses.stream(**ask) as events:
    texts = [e.delta for e in events if e.type == "response.output_text.delta"]
    assert "".join(texts) == events.get_final_response().output_text
ask = {"model": "qwen", "temperature": 0, "max_output_tokens": 40}
is_ada(qwen.responses.parse(**ask, input=PERSON, text_format=Person).output_parsed.model_dump())
ask["tools"] = [{"type": "function", "name": "weather", "description": ABOUT, "parameters": CITY,
                 "strict": True}]
r = qwen.responses.create(**ask, input=WEATHER)
call = r.output[0]
assert call.type == "function_call"
asks_oslo(call.arguments)
said = [*WEATHER, *r.output, {"type": "function_call_output", "call_id": call.call_id, "output": RESULT}]
assert qwen.responses.create(**ask, input=said, tool_choice="none").output_text
with qwen.responses.stream(**ask, input=WEATHER, tool_choice="required") as events:
    asks_oslo(events.get_final_response().output[0].arguments)

step("embeddings")
a = smol.embeddings.create(model=EMBEDDINGS, input=["One text", "and another"])
assert len(a.data) == 2 and len(a.data[0].embedding) > 8 and a.usage.prompt_tokens
b = smol.embeddings.create(model=EMBEDDINGS, input="One text", encoding_format="float")
assert max(abs(x - y) for x, y in zip(a.data[0].embedding, b.data[0].embedding)) < 1e-6

step("errors")
wrong = openai.OpenAI(base_url=f"{TINY}/v1", api_key="sk-wrong")
assert raises(openai.AuthenticationError, wrong.models.list).code == "invalid_api_key"
ask = {"model": "tiny", "messages": HI}
assert once.chat.completions.create(**ask | {"model": "gpt-4o-mini"}, max_tokens=2).model == "tiny"
e = raises(openai.BadRequestError, lambda: once.chat.completions.create(**ask, seed="x"))
assert e.code == "invalid_type" and e.param == "seed"
a = once.chat.completions.with_raw_response.create(**ask, max_tokens=2, extra_body={"what": 1})
assert a.headers["x-qsf-ignored"] == "what"
raises(openai.BadRequestError, lambda: once.chat.completions.create(**ask | {"messages": HI * 3000}))
raises(openai.BadRequestError, lambda: once.responses.create(model="tiny", input="x",
                                                             previous_response_id="y"))
raises(openai.BadRequestError, lambda: list(once.chat.completions.create(**ask, stream=True, top_p=7)))

step("a full queue")
full(2)
e = raises(openai.RateLimitError, lambda: once.chat.completions.create(**ask, max_tokens=2))
assert e.code == "queue_full" and int(e.response.headers["retry-after"]) >= 1
assert tiny.chat.completions.create(**ask, max_tokens=2).usage.completion_tokens == 2

step("a deadline of the client")
raises(openai.APITimeoutError, lambda: once.with_options(timeout=0.5).completions.create(
    model="tiny", prompt="x", **LONG))
gone()

step("a deadline of the server")
raises(openai.InternalServerError, lambda: once.completions.create(
    model="tiny", prompt="x", max_tokens=1000000, extra_body={"ignore_eos": True, "timeout": 0.05}))

step("a stream that is left")
with tiny.completions.create(model="tiny", prompt="x", stream=True, **LONG) as stream:
    next(stream), next(stream)
gone()


async def together():
    ask = {"model": "tiny", "max_tokens": 8, "temperature": 0}
    async with openai.AsyncOpenAI(base_url=f"{TINY}/v1", api_key=KEY) as client:
        answers = await asyncio.gather(*(client.completions.create(prompt=f"Number {i}", **ask)
                                         for i in range(8)))
        stream = await client.completions.create(prompt="Number 3", stream=True, **ask)
        assert "".join([c.choices[0].text async for c in stream]) == answers[3].choices[0].text
        return [a.choices[0].text for a in answers]

step("eight at once")
texts = asyncio.run(together())
assert len(set(texts)) > 3
