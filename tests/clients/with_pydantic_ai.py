"""What users of the Python package pydantic-ai do.
SPDX-License-Identifier: MIT
"""
import asyncio
import contextlib

from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput, PromptedOutput, ToolOutput, UsageLimits
from pydantic_ai.exceptions import UnexpectedModelBehavior, UsageLimitExceeded
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

from steps import *


class Person(BaseModel):
    name: str
    age: int


class Report(BaseModel):
    city: str
    weather: str


openai = OpenAIProvider(base_url=f"{QWEN}/v1", api_key=KEY)
models = {"chat": OpenAIChatModel("qwen", provider=openai),
          "responses": OpenAIResponsesModel("qwen", provider=openai),
          "messages": AnthropicModel("qwen", provider=AnthropicProvider(base_url=QWEN, api_key=KEY),
                                     settings={"max_tokens": 100})}
question, weather_question, person = (m[0]["content"] for m in (COUNT, WEATHER, PERSON))
LIMITS = UsageLimits(request_limit=3)
asked_for = []


def weather(city: str) -> str:
    """The weather in a city"""
    asked_for.append(city)
    return RESULT


async def streamed(agent):
    async with agent.run_stream(question) as run:
        pieces = [t async for t in run.stream_text(delta=True, debounce_by=None)]
    return pieces


for kind, model in models.items():
    step(f"{kind}: text, streamed")
    agent = Agent(model, instructions="You are helpful.")
    whole = agent.run_sync(question)
    assert "4" in whole.output and whole.usage.input_tokens > 8, whole
    pieces = asyncio.run(streamed(agent))
    assert "".join(pieces) == whole.output and len(pieces) > 1

    step(f"{kind}: tools")
    asked_for.clear()
    with contextlib.suppress(UsageLimitExceeded, UnexpectedModelBehavior):      # it may call without end
        assert Agent(model, tools=[weather]).run_sync(weather_question, usage_limits=LIMITS).output
    assert "Oslo" in asked_for[0]

    step(f"{kind}: structured output")
    native = kind != "messages"         # which it has only for models whose names it knows
    for output in [Person, ToolOutput(Person), PromptedOutput(Person), *[NativeOutput(Person)] * native]:
        is_ada(Agent(model, output_type=output).run_sync(person, usage_limits=LIMITS).output.model_dump())

    step(f"{kind}: tools and structured output")
    for output in [Report, *[NativeOutput(Report)] * native]:
        agent = Agent(model, tools=[weather], output_type=output)
        report = agent.run_sync(weather_question, usage_limits=UsageLimits(request_limit=4)).output
        assert "Oslo" in report.city, report
