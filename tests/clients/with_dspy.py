"""What users of the Python package dspy do.
SPDX-License-Identifier: MIT
"""
import asyncio

import dspy
from pydantic import BaseModel

from steps import *

question, weather_question, person = (m[0]["content"] for m in (COUNT, WEATHER, PERSON))
asked_for = []


class Person(BaseModel):
    name: str
    age: int


class Describe(dspy.Signature):
    """Who is it?"""
    text: str = dspy.InputField()
    person: Person = dspy.OutputField()


def weather(city: str) -> str:
    """The weather in a city"""
    asked_for.append(city)
    return RESULT


async def streamed(program, **inputs):
    listener = dspy.streaming.StreamListener(signature_field_name="answer")
    pieces, last = [], None
    async for part in dspy.streamify(program, stream_listeners=[listener])(**inputs):
        if isinstance(part, dspy.Prediction):
            last = part
        elif isinstance(part, dspy.streaming.StreamResponse):
            pieces.append(part.chunk)
    return pieces, last


def lm(**more):
    return dspy.LM("openai/qwen", api_base=f"{QWEN}/v1", api_key=KEY, cache=False, **more)


for kind, how in {"chat": {}, "responses": {"model_type": "responses"}}.items():
    for adapter in dspy.ChatAdapter(), dspy.JSONAdapter():
        dspy.configure(lm=lm(**how), adapter=adapter)
        step(f"{kind}, {type(adapter).__name__}: structured output")
        is_ada(dspy.Predict(Describe)(text="Ada is 36 years old.").person.model_dump())
        assert dspy.ChainOfThought("question -> answer")(question=question).answer

dspy.configure(lm=lm(), adapter=dspy.ChatAdapter())
step("streamed")
pieces, last = asyncio.run(streamed(dspy.Predict("question -> answer"), question=question))
assert last.answer and "".join(pieces).strip() == last.answer, (pieces, last)

step("tools")


class UseTools(dspy.Signature):
    """Call a tool that answers the question."""
    question: str = dspy.InputField()
    tools: list[dspy.Tool] = dspy.InputField()
    calls: dspy.ToolCalls = dspy.OutputField()


tool = dspy.Tool(weather)
for native in False, True:
    dspy.configure(adapter=dspy.JSONAdapter(use_native_function_calling=native))
    calls = dspy.Predict(UseTools)(question=weather_question, tools=[tool]).calls
    assert calls.tool_calls[0].name == "weather" and [*calls.tool_calls[0].args] == ["city"], calls

step("tools and structured output")
agent = dspy.ReAct("question -> answer", tools=[weather], max_iters=2)
assert agent(question=weather_question).answer
