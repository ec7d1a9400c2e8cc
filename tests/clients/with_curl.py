"""What users of curl do.
SPDX-License-Identifier: MIT
"""
import json
import subprocess

from steps import *


def curl(url, body=None, *more, key=KEY):
    ask = ["-d", json.dumps(body)] if body is not None else []
    return subprocess.run(["curl", "-s", url, "-H", f"Authorization: Bearer {key}", *ask, *more],
                          capture_output=True, text=True).stdout


cold = {"temperature": 0, "max_tokens": 8}
typed = "-H", "Content-Type: application/json"

step("models")
assert json.loads(curl(f"{TINY}/v1/models"))["data"][0]["id"] == "tiny"

step("chat")
whole = json.loads(curl(f"{SMOL}/v1/chat/completions", {"messages": CAPITAL, **cold}))
text = whole["choices"][0]["message"]["content"]
assert "Paris" in text

step("chat, streamed")
stream = {"messages": CAPITAL, **cold, "stream": True}
lines = curl(f"{SMOL}/v1/chat/completions", stream, *typed, "-N").split("\n\n")
assert lines[-2:] == ["data: [DONE]", ""]
parts = [json.loads(line[6:])["choices"][0]["delta"] for line in lines[:-2]]
assert "".join(p.get("content", "") for p in parts) == text

step("the other paths")
assert json.loads(curl(f"{SMOL}/v1/messages", {"messages": CAPITAL, **cold}, *typed))["content"]
assert json.loads(curl(f"{SMOL}/v1/responses", {"input": "Hi", "temperature": 0, "max_output_tokens": 8},
                       *typed))["output"]
assert json.loads(curl(f"{SMOL}/generate", {"prompt": "Once", **cold}, *typed))["choices"]
tokens = json.loads(curl(f"{SMOL}/tokenize", {"content": "Once upon a time"}))["tokens"]
assert json.loads(curl(f"{SMOL}/detokenize", {"tokens": tokens}))["content"] == "Once upon a time"
assert "Say hi" in json.loads(curl(f"{SMOL}/apply-template", {"messages": HI}))["prompt"]
assert json.loads(curl(f"{SMOL}/health", key="none")) == {"status": "ok"}

step("errors")
ask = "-o", "/dev/null", "-w", "%{http_code}"
assert curl(f"{TINY}/v1/models", None, *ask, key="sk-wrong") == "401"
assert curl(f"{TINY}/v1/nothing", None, *ask) == "404"
assert curl(f"{TINY}/v1/chat/completions", {"messages": 7}, *ask) == "400"
assert curl(f"{TINY}/v1/chat/completions", None, *ask) == "405"

step("a full queue")
full(1)
ask = "-w", "\n%{http_code}", "--retry", "5"
assert curl(f"{TINY}/v1/completions", {"prompt": "x", "max_tokens": 1}, *ask).endswith("200")

step("a stream that is left")
long = {"prompt": "x", "max_tokens": 1000000, "stream": True, **LONG["extra_body"]}
p = subprocess.Popen(["curl", "-sN", f"{TINY}/v1/completions", "-H", f"X-Api-Key: {KEY}", "-d",
                      json.dumps(long)], stdout=subprocess.PIPE)
assert p.stdout.readline().startswith(b"data: ")
p.terminate()
gone()
p.wait()
