"""What users of the Python package mirascope do.
SPDX-License-Identifier: MIT
"""
from mirascope import llm
from pydantic import BaseModel

from steps import *

question, weather_question, person = (m[0]["content"] for m in (COUNT, WEATHER, PERSON))


class Person(BaseModel):
    name: str
    age: int


class Report(BaseModel):
    city: str
    weather: str


@llm.tool
def weather(city: str) -> str:
    """The weather in a city"""
    return RESULT


llm.register_provider("anthropic", api_key=KEY, base_url=QWEN)
for kind, name in {"completions": "openai/qwen:completions", "responses": "openai/qwen:responses",
                   "messages": "anthropic/qwen"}.items():
    if kind != "messages":
        llm.register_provider(f"openai:{kind}", scope="openai/", api_key=KEY, base_url=f"{QWEN}/v1")
    model = llm.Model(name, **{"max_tokens": 100} if kind == "messages" else {})

    step(f"{kind}: text, streamed")
    whole = model.call(question)
    assert "4" in whole.text()
    pieces = [c.delta for c in model.stream(question).chunk_stream() if c.type == "text_chunk"]
    assert "".join(pieces) == whole.text() and len(pieces) > 1

    step(f"{kind}: structured output")
    for mode in "tool", "json", "strict":
        shape = llm.format(Person, mode=mode)
        is_ada(model.call(person, format=shape).parse().model_dump())
        stream = model.stream(person, format=shape)
        *_, last = stream.structured_stream()
        is_ada(stream.parse().model_dump())

    step(f"{kind}: tools")
    a = model.call(weather_question, tools=[weather])
    asks_oslo(a.tool_calls[0].args)
    assert a.execute_tools()[0].result == RESULT
    assert a.resume(a.execute_tools()).content
    stream = model.stream(weather_question, tools=[weather])
    stream.finish()
    asks_oslo(stream.tool_calls[0].args)

    step(f"{kind}: tools and structured output")
    a = model.call(weather_question, tools=[weather], format=llm.format(Report, mode="strict"))
    for _ in range(2):
        if not a.tool_calls:
            break
        a = a.resume(a.execute_tools())
    assert a.tool_calls or "Oslo" in a.parse().city
