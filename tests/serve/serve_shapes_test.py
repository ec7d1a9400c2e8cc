#!/usr/bin/env python3
"""Constrained answers of qsf-serve: together with tools, and with schemas that cannot be enforced.
SPDX-License-Identifier: MIT

    serve_shapes_test.py QSF_SERVE [--models DIR] [NAME...]     the tests whose names have one of the words

The model is the tiny random one of serve_fields_test.py.
"""
import json
import re

from serve_fields_test import FORMAT, SCHEMA, TEMPLATE, THINKS, TOOLS, chunks_of, is_person, refused
from serve_server import CHAT, run


def kind_of(choice):
    """"call", "person" or "cut"; anything else is wrong."""
    message = choice["message"]
    if choice["finish_reason"] == "length":
        return "cut"
    if choice["finish_reason"] == "tool_calls":
        assert not message["content"], message
        for call in message["tool_calls"]:
            assert json.loads(call["function"]["arguments"])["city"] in ("Rome", "Oslo")
        return "call"
    assert choice["finish_reason"] == "stop" and is_person(message["content"]), choice
    assert not message.get("tool_calls")
    return "person"


def test_tools_and_a_shape_together(s):
    path, texts = "/v1/chat/completions", {"name": "person", "type": "json_schema", "schema": SCHEMA}
    flat = [{"type": "function", **f["function"]} for f in TOOLS]
    for template in (TEMPLATE, THINKS):
        with s.other("--chat-template", template) as t:
            seen, thought = set(), 0
            asked = {"messages": CHAT, "tools": TOOLS, "response_format": FORMAT, "max_tokens": 300,
                     "parallel_tool_calls": False}
            for seed in range(24):
                hot = {**asked, "temperature": 1.3, "seed": seed, "logit_bias": {str(ord("<")): 3}}
                whole = t.post(path, **hot)["choices"][0]
                seen.add(kind_of(whole))
                thought += "reasoning_content" in whole["message"]
                if seed > 3:
                    continue
                chunks = [c["choices"][0] for c in chunks_of(t, path, **hot)]
                assert chunks[-1]["finish_reason"] == whole["finish_reason"]
                text = "".join(c["delta"].get("content") or "" for c in chunks)
                assert text == (whole["message"]["content"] or "")
                assert kind_of(t.post(path, **hot, tool_choice="required")["choices"][0]) in ("call", "cut")
                assert kind_of(t.post(path, **hot, tool_choice="none")["choices"][0]) in ("person", "cut")
                del hot["tools"], hot["parallel_tool_calls"]
                assert kind_of(t.post(path, **hot)["choices"][0]) in ("person", "cut")
            assert seen >= {"call", "person"} and bool(thought) == (template == THINKS), (seen, thought)
            seen = set()
            for seed in range(200):
                if seen >= {"function_call", "message"}:
                    break
                a = t.post("/v1/responses", input="Say hi", tools=flat, text={"format": texts}, seed=seed,
                           temperature=2, max_output_tokens=300, logit_bias={str(ord("<")): 3})
                item = a["output"][-1]
                seen.add(item["type"])
                if item["type"] == "function_call" and a["status"] == "completed":
                    assert json.loads(item["arguments"])["days"] in range(1, 10)
                elif item["type"] == "message" and a["status"] == "completed":
                    assert is_person(item["content"][0]["text"])
            assert seen >= {"function_call", "message"}, seen


def test_one_schema_that_cannot_be_kept_loosens_one_keyword(s):
    with s.other("--chat-template", TEMPLATE) as t:
        hard = {"type": "function", "function": {"name": "hard", "parameters": {
            "type": "object", "required": ["list", "city"], "properties": {
                "city": {"type": "string", "enum": ["Rome", "Oslo"]},
                "list": {"type": "array", "uniqueItems": True, "minItems": 2, "maxItems": 2,
                         "items": {"type": "boolean"}}}}}}
        for seed in range(4):
            a = t.post("/v1/chat/completions", messages=CHAT, tools=[hard, TOOLS[0]], seed=seed,
                       max_tokens=400, temperature=1.2, parallel_tool_calls=False,
                       tool_choice={"type": "function", "function": {"name": "hard"}})["choices"][0]
            assert a["finish_reason"] == "tool_calls", a
            got = json.loads(a["message"]["tool_calls"][0]["function"]["arguments"])
            # What can be enforced is, and no key is invented.
            assert set(got) == {"list", "city"} and got["city"] in ("Rome", "Oslo"), got
            assert len(got["list"]) == 2 and all(type(x) is bool for x in got["list"]), got
        reports_what_is_not_enforced(t, hard)
    with s.other("--strict") as t:
        assert t.post("/v1/chat/completions", messages=CHAT, tools=[hard], max_tokens=1)


def reports_what_is_not_enforced(t, hard):
    place = "tools.hard.parameters/properties/list/uniqueItems"
    asked = {"messages": CHAT, "tools": [hard, TOOLS[0]], "max_tokens": 1}
    for more, ignored in (({}, place), ({"stream": True}, place),      # the second time from the cache
                          ({"tool_choice": "required", "what": 1}, f"what, {place}"),
                          ({"tool_choice": {"type": "function", "function": {"name": "look"}}}, None),
                          ({"tool_choice": "none"}, None), ({"tools": [TOOLS[0]]}, None)):
        status, headers, answer = t.ask("POST", "/v1/chat/completions", {**asked, **more})
        assert status == 200 and headers["x-qsf-ignored"] == ignored, (more, headers["x-qsf-ignored"], answer)


def test_grammars_may_be_in_lark(s):
    rules = 'start: WORD ("," WORD)~1..2\nWORD: ("a".."f")~2\n'
    for more in ({"grammar": rules}, {"guided_grammar": rules}, {"structured_outputs": {"grammar": rules}},
                 {"response_format": {"type": "grammar", "grammar": rules}}):
        a = s.post("/v1/completions", prompt="x", max_tokens=40, seed=1, temperature=1.3, **more)
        words = a["choices"][0]["text"].split(",")
        assert len(words) in (2, 3) and all(len(w) == 2 and set(w) <= set("abcdef") for w in words), a
    message = refused(s, "/v1/completions", "invalid_schema", prompt="x", grammar="start: a{b}\n")["message"]
    assert "templates are not supported" in message, message


def test_custom_tools_keep_their_grammar(s):
    lark = 'start: "(" [start] ")" NUMBER\n%import common.INT -> NUMBER\n'
    gbnf = 'root ::= "(" root? ")" [0-9]+\n'
    with s.other("--chat-template", TEMPLATE) as t:
        for seed in range(8):
            syntax, rules = (("lark", lark), ("gbnf", gbnf))[seed % 2]
            custom = {"type": "custom", "name": "nest", "format": {"type": "grammar", "syntax": syntax,
                                                                   "definition": rules}}
            a = t.post("/v1/responses", input="Say hi", tools=[custom], tool_choice="required", seed=seed,
                       temperature=1.2, max_output_tokens=200, parallel_tool_calls=False)
            item = a["output"][-1]
            if a["status"] == "completed":
                assert item["type"] == "custom_tool_call", item
                assert re.fullmatch(r"\(*(\)\d+)+", item["input"]), item
                assert item["input"].count("(") == item["input"].count(")"), item


if __name__ == "__main__":
    run(__doc__, globals())
