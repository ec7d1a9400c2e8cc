"""What users of the Python package smolagents do.
SPDX-License-Identifier: MIT
"""
import json

import smolagents

from steps import *

question, weather_question, _ = (m[0]["content"] for m in (COUNT, WEATHER, PERSON))
asked_for = []
model = smolagents.OpenAIServerModel("qwen", f"{QWEN}/v1", KEY)


@smolagents.tool
def weather(city: str) -> str:
    """The weather in a city

    Args:
        city: The name of the city
    """
    asked_for.append(city)
    return RESULT


def text(role, words):
    return smolagents.ChatMessage(role=role, content=[{"type": "text", "text": words}])


step("text, streamed")
whole = model.generate([text("user", question)])
assert "4" in whole.content and whole.token_usage.input_tokens > 8
pieces = [p.content or "" for p in model.generate_stream([text("user", question)])]
assert "".join(pieces) == whole.content and len(pieces) > 1

step("structured output")
shape = {"type": "json_schema", "json_schema": {"name": "City", "schema": CITY, "strict": True}}
a = model.generate([text("user", question)], response_format=shape)
assert list(json.loads(a.content)) == ["city"]

step("tools")
a = model.generate([text("user", weather_question)], tools_to_call_from=[weather])
call = a.tool_calls[0].function
assert call.name == "weather"
asks_oslo(call.arguments)

step("an agent with tools")
agent = smolagents.ToolCallingAgent(tools=[weather], model=model, max_steps=2, verbosity_level=0)
agent.run(weather_question)
assert asked_for and isinstance(asked_for[0], str)
agent = smolagents.ToolCallingAgent(tools=[weather], model=model, max_steps=1, verbosity_level=0,
                                    stream_outputs=True)
list(agent.run(weather_question, stream=True))

step("an agent that writes code")
agent = smolagents.CodeAgent(tools=[weather], model=model, max_steps=1, verbosity_level=0)
agent.run(weather_question)
step("an agent that writes code, as JSON")
agent = smolagents.CodeAgent(tools=[weather], model=model, max_steps=1, verbosity_level=0,
                             use_structured_outputs_internally=True)
agent.run(weather_question)
written = agent.memory.steps[1].model_output
assert set(json.loads(written)) == {"thought", "code"}, written
