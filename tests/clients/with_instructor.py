"""What users of the Python package instructor do.
SPDX-License-Identifier: MIT
"""
import anthropic
import instructor
import openai
from pydantic import BaseModel

from steps import *


class Person(BaseModel):
    name: str
    age: int


def of(mode):
    return instructor.from_openai(openai.OpenAI(base_url=f"{QWEN}/v1", api_key=KEY), mode=mode)


ask = {"model": "qwen", "messages": PERSON, "response_model": Person}
for mode in "TOOLS", "TOOLS_STRICT", "JSON", "JSON_SCHEMA", "MD_JSON", "RESPONSES_TOOLS":
    step(mode)
    client = of(instructor.Mode[mode])
    is_ada(client.chat.completions.create(**ask).model_dump())
    if mode == "RESPONSES_TOOLS":
        continue
    *_, last = client.chat.completions.create_partial(**ask)
    is_ada(last.model_dump())
    if mode != "MD_JSON":
        assert list(client.chat.completions.create_iterable(**ask))[0].name == "Ada"

for mode in "ANTHROPIC_TOOLS", "ANTHROPIC_JSON":
    step(mode)
    client = instructor.from_anthropic(anthropic.Anthropic(base_url=QWEN, api_key=KEY),
                                       mode=instructor.Mode[mode])
    is_ada(client.messages.create(**ask, max_tokens=100).model_dump())
    if mode == "ANTHROPIC_JSON":
        continue                # what the client reads of a stream may not stand in a code block
    *_, last = client.messages.create_partial(**ask, max_tokens=100)
    is_ada(last.model_dump())

step("from_provider")
client = instructor.from_provider("openai/qwen", base_url=f"{QWEN}/v1", api_key=KEY)
is_ada(client.create(messages=PERSON, response_model=Person).model_dump())
