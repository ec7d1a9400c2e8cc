"""What users of the Python package openai-agents do.
SPDX-License-Identifier: MIT
"""
import asyncio
import contextlib

import agents
import openai
from pydantic import BaseModel

from steps import *

agents.set_tracing_disabled(True)
client = openai.AsyncOpenAI(base_url=f"{QWEN}/v1", api_key=KEY)
question, weather_question, person = (m[0]["content"] for m in (COUNT, WEATHER, PERSON))
asked_for = []


class Person(BaseModel):
    name: str
    age: int


class Report(BaseModel):
    city: str
    weather: str


@agents.function_tool
def weather(city: str) -> str:
    """The weather in a city"""
    asked_for.append(city)
    return RESULT


async def streamed(agent):
    run = agents.Runner.run_streamed(agent, question)
    pieces = [e.data.delta async for e in run.stream_events()
              if e.type == "raw_response_event" and e.data.type == "response.output_text.delta"]
    assert "".join(pieces) == run.final_output and len(pieces) > 1
    return run.final_output


def run(question, **more):
    agent = agents.Agent(name="Helper", instructions="You are helpful.", **more)
    return agents.Runner.run_sync(agent, question, max_turns=4)


for kind, model in {"responses": agents.OpenAIResponsesModel("qwen", client),
                    "chat": agents.OpenAIChatCompletionsModel("qwen", client)}.items():
    step(f"{kind}: text, streamed")
    whole = run(question, model=model)
    assert "4" in whole.final_output and whole.raw_responses[0].usage.input_tokens > 8
    agent = agents.Agent(name="Helper", instructions="You are helpful.", model=model)
    assert asyncio.run(streamed(agent)) == whole.final_output

    step(f"{kind}: structured output")
    is_ada(run(person, model=model, output_type=Person).final_output.model_dump())

    step(f"{kind}: tools")
    asked_for.clear()
    with contextlib.suppress(agents.MaxTurnsExceeded):
        assert run(weather_question, model=model, tools=[weather]).final_output
    assert "Oslo" in asked_for[0]

    step(f"{kind}: tools and structured output")
    report = run(weather_question, model=model, tools=[weather], output_type=Report).final_output
    assert "Oslo" in report.city, report

    step(f"{kind}: a hand-off")
    other = agents.Agent(name="Weather", handoff_description="Knows the weather", model=model,
                         tools=[weather])
    with contextlib.suppress(agents.MaxTurnsExceeded):      # a small model may call without end
        run(weather_question, model=model, handoffs=[other],
            model_settings=agents.ModelSettings(tool_choice="required"))
