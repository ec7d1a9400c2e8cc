"""What the clients' programs share: the servers, the steps of a transcript, what is asked.
SPDX-License-Identifier: MIT

serve_clients_test.py starts each program, keeps its requests under the name of its step and answers what the
program asks for on its standard output.
"""
import json
import os
import sys

TINY, SMOL, QWEN, KEY = (os.environ["QSF_" + name] for name in ("TINY", "SMOL", "QWEN", "KEY"))
EMBEDDINGS = "smollm2"
HI = [{"role": "user", "content": "Say hi"}]
CAPITAL = [{"role": "user", "content": "What is the capital of France? Answer in one word."}]
COUNT = [{"role": "user", "content": "Count from 1 to 5."}]
WEATHER = [{"role": "user", "content": "What is the weather in Oslo? Use the tool."}]
PERSON = [{"role": "user", "content": "Ada is 36 years old. Who is it, as JSON?"}]
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"],
        "additionalProperties": False}
ABOUT = "The weather in a city"
RESULT = "snow, -5 degrees"
LONG = {"max_tokens": 1000000, "extra_body": {"ignore_eos": True}}


def tell(*words):
    print(*words, flush=True)
    sys.stdin.readline()


def step(name):
    """What follows belongs to this step."""
    tell("step", name)


def full(times):
    """The tiny model's server is full from now on, until it has refused that many requests."""
    tell("full", times)


def raises(kind, call):
    try:
        call()
    except kind as e:
        return e
    raise AssertionError(f"no {kind.__name__} came")


def gone():
    """Waits until the tiny model's server has given up an answer of this step."""
    tell("gone")


def is_ada(person):
    assert person["name"] == "Ada" and person["age"] == 36, person


def asks_oslo(arguments):
    a = json.loads(arguments) if isinstance(arguments, str) else arguments
    assert "Oslo" in a["city"], a
