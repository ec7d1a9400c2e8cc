"""What users of haystack do.
SPDX-License-Identifier: MIT
"""
from haystack import Pipeline
from haystack.components.agents import Agent
from haystack.components.generators.chat import OpenAIChatGenerator, OpenAIResponsesChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.tools import create_tool_from_function
from haystack.utils import Secret
from pydantic import BaseModel

from steps import *

question, weather_question, person = ([ChatMessage.from_user(m[0]["content"])]
                                      for m in (COUNT, WEATHER, PERSON))
asked_for = []


class Person(BaseModel):
    name: str
    age: int


def weather(city: str) -> str:
    """The weather in a city"""
    asked_for.append(city)
    return RESULT


tool = create_tool_from_function(weather)
for kind, of in {"chat": OpenAIChatGenerator, "responses": OpenAIResponsesChatGenerator}.items():
    def generator(**more):
        return of(api_key=Secret.from_token(KEY), model="qwen", api_base_url=f"{QWEN}/v1", **more)

    def reply(messages, **more):
        return generator(**more).run(messages)["replies"][0]

    def shape(model):
        return {"generation_kwargs": {"response_format" if kind == "chat" else "text_format": model}}

    step(f"{kind}: text, streamed")
    whole = reply(question).text
    assert "4" in whole
    pieces = []
    last = reply(question, streaming_callback=lambda piece: pieces.append(piece.content or ""))
    assert "".join(pieces) == whole == last.text and len(pieces) > 1

    step(f"{kind}: structured output")
    is_ada(json.loads(reply(person, **shape(Person)).text))

    step(f"{kind}: tools")
    asks_oslo(reply(weather_question, tools=[tool]).tool_calls[0].arguments)
    last = reply(weather_question, tools=[tool], streaming_callback=lambda piece: None)
    asks_oslo(last.tool_calls[0].arguments)

    step(f"{kind}: an agent")
    asked_for.clear()
    said = Agent(chat_generator=generator(), tools=[tool], max_agent_steps=3).run(weather_question)
    assert said["messages"] and "Oslo" in asked_for[0]

    step(f"{kind}: tools and structured output")
    a = reply(weather_question, tools=[tool], tools_strict=True, **shape(Person))
    assert a.tool_calls or Person.model_validate_json(a.text)
