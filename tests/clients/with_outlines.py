"""What users of the Python package outlines do.
SPDX-License-Identifier: MIT
"""
import json
from typing import Literal

import openai
import outlines
from pydantic import BaseModel

from steps import *

question, _, person = (m[0]["content"] for m in (COUNT, WEATHER, PERSON))
client = openai.OpenAI(base_url=f"{QWEN}/v1", api_key=KEY)


class Person(BaseModel):
    name: str
    age: int


for name, model in {"openai": outlines.from_openai(client, "qwen"),
                    "vllm": outlines.from_vllm(client, "qwen")}.items():
    step(f"{name}: text, streamed")
    whole = model(question)
    assert "4" in whole
    pieces = list(model.stream(question))
    assert "".join(pieces) == whole and len(pieces) > 1

    step(f"{name}: structured output")
    is_ada(json.loads(model(person, Person)))
    assert "".join(model.stream(person, Person)) == model(person, Person)
    is_ada(json.loads(outlines.Generator(model, Person)(person)))
    if name == "vllm":
        assert model(question, Literal["1, 2", "Paris"]) in ("1, 2", "Paris")
        assert model("A number, please", outlines.regex("[0-9]{3}")).isdigit()
        assert model("Yes or no?", outlines.cfg('start: "yes" | "no"')) in ("yes", "no")
        assert isinstance(int(model("How old is Ada, who is 36?", int)), int)
