"""What users of the command llm do.
SPDX-License-Identifier: MIT
"""
import json
import os
import pathlib
import subprocess

from steps import *

home = pathlib.Path(os.environ["QSF_WORK"], "llm")
home.mkdir(exist_ok=True)
(home / "keys.json").write_text(json.dumps({"qsf": KEY}))
(home / "extra-openai-models.yaml").write_text("".join(
    f"- model_id: {model_id}\n  model_name: {name}\n  api_base: {url}/v1\n"
    f"  api_key_name: qsf\n  {more}: true\n"
    for model_id, name, url, more in (
        ("smollm2", "smollm2", SMOL, "can_stream"), ("other", "smollm2", SMOL, "responses"),
        ("tiny", "tiny", TINY, "completion"), ("wrong", "none", TINY, "can_stream"),
        ("qwen", "qwen", QWEN, "supports_tools: true\n  supports_schema"))))


def llm(*words, code=0, **more):
    r = subprocess.run(["llm", *words], env={**os.environ, "LLM_USER_PATH": str(home)}, text=True,
                       capture_output=True, stdin=subprocess.DEVNULL, **more)
    assert code is None or r.returncode == code, r.stdout + r.stderr
    return r.stdout + r.stderr if code is None else r.stderr if code else r.stdout


cold = "-o", "temperature", "0", "-o", "max_tokens"
question = "What is the capital of France? Answer in one word."

step("models")
assert "smollm2" in llm("models")

step("a prompt, streamed")
text = llm("-m", "smollm2", "-s", "Be brief.", question, *cold, "8")
assert "Paris" in text

step("a prompt")
assert llm("-m", "smollm2", "-s", "Be brief.", question, *cold, "8", "--no-stream") == text
assert llm("-c", "-m", "smollm2", "And of Italy?", *cold, "8", "--no-stream")

step("the other interfaces")
assert "Paris" in llm("-m", "other", question, *cold, "8")
assert llm("-m", "tiny", "Once", *cold, "8", "--no-stream")

step("structured output")
is_ada(json.loads(llm("-m", "qwen", PERSON[0]["content"], "--schema", "name, age int", *cold, "40")))

step("tools")
code = 'def weather(city: str) -> str:\n    "The weather in a city"\n    return "snow, -5 degrees"\n'
said = llm("-m", "qwen", WEATHER[0]["content"], "--functions", code, "--td", "--chain-limit", "2",
           *cold, "40", code=None)                      # the model may call again, which is one too many
assert "weather({'city': 'Oslo'})" in said and "snow" in said, said

step("errors")
assert "maximum context length" in llm("-m", "wrong", "Say hi " * 3000, "--no-stream", code=1)
