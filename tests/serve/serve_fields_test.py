#!/usr/bin/env python3
"""What qsf-serve makes of the fields that shape an answer: grammars, tools, log probabilities, samplers.
SPDX-License-Identifier: MIT

    serve_fields_test.py QSF_SERVE [--models DIR] [NAME...]     the tests whose names have one of the words

The model is a tiny random one: whatever it writes that makes sense, its grammar has made it write.
"""
import importlib.util
import json
import random
import re
import threading
import time

from serve_server import CHAT, Server, model_path, run, together

SCHEMA = {"type": "object", "properties": {"name": {"type": "string", "pattern": "^[a-z]{1,6}$"},
                                           "age": {"type": "integer", "minimum": 0, "maximum": 120}},
          "required": ["name", "age"], "additionalProperties": False}
FORMAT = {"type": "json_schema", "json_schema": {"name": "person", "schema": SCHEMA, "strict": True}}
# Short, since each byte is a token to the tiny model; THINKS also knows reasoning.
THINKS = ("{% for t in tools or [] %}{{ t | tojson }}{% endfor %}{% for m in messages %}<{{ m.role }}>"
          "{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}"
          "{{ m.content or '' }}{% for c in m.tool_calls or [] %}<tool_call>"
          "{\"name\": \"{{ c.function.name }}\", \"arguments\": {{ c.function.arguments | tojson }}}"
          "</tool_call>{% endfor %}<|end|>{% endfor %}"
          "{% if add_generation_prompt %}<assistant>{% if enable_thinking %}<think>{% endif %}{% endif %}")
TEMPLATE = THINKS.replace("{% if enable_thinking %}<think>{% endif %}", "").replace(
    "{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}", "")
TOOLS = [{"type": "function", "function": {"name": name, "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "enum": ["Rome", "Oslo"]},
                                     "days": {"type": "integer", "minimum": 1, "maximum": 9}},
    "required": ["city", "days"], "additionalProperties": False}}} for name in ("look", "ask")]


def is_person(text):
    a = json.loads(text)
    return list(a) == ["name", "age"] and re.fullmatch("[a-z]{1,6}", a["name"]) and 0 <= a["age"] <= 120


def refused(s, path, code="invalid_value", status=400, **body):
    got, _, answer = s.ask("POST", path, body)
    assert got == status and answer["error"]["code"] == code, (got, answer, str(body)[:200])
    return answer["error"]


def chunks_of(s, path, **body):
    data = s.events(path, **body)
    assert data[-1] == "[DONE]"
    return [json.loads(d) for d in data[:-1]]


# ---- what an answer may be ----

def test_answers_have_the_shape_that_was_asked_for(s):
    hot = {"temperature": 1.3, "max_tokens": 400}
    for seed in range(3):
        for more in ({"response_format": FORMAT}, {"json_schema": SCHEMA}, {"guided_json": SCHEMA},
                     {"guided_json": json.dumps(SCHEMA)}, {"structured_outputs": {"json": SCHEMA}},
                     {"response_format": {"type": "json_object", "schema": SCHEMA}}):
            a = s.post("/v1/completions", prompt="A person:", seed=seed, **hot, **more)["choices"][0]
            assert a["finish_reason"] == "stop" and is_person(a["text"]), a
        texts = [s.post("/v1/completions", prompt="A date:", seed=seed, **hot, **more)["choices"][0]["text"]
                 for more in ({"regex": r"\d{4}-\d\d"}, {"guided_regex": r"\d{4}-\d\d"},
                              {"grammar": 'root ::= [0-9]{4} "-" [0-9]{2}'},
                              {"response_format": {"type": "regex", "regex": r"\d{4}-\d\d"}})]
        assert all(re.fullmatch(r"\d{4}-\d\d", t) for t in texts), texts
        for more in ({"choices": ["yes", "no"]}, {"guided_choice": ["yes", "no"]},
                     {"structured_outputs": {"choice": ["yes", "no"]}}):
            a = s.post("/generate", prompt="Sure?", seed=seed, **more)["choices"][0]
            assert a["text"] in ("yes", "no")
        chat = s.post("/v1/chat/completions", messages=CHAT, seed=seed, **hot, response_format=FORMAT)
        assert is_person(chat["choices"][0]["message"]["content"])
        data = chunks_of(s, "/v1/chat/completions", messages=CHAT, seed=seed, **hot, response_format=FORMAT)
        assert "".join(c["choices"][0]["delta"].get("content", "") for c in data) == \
            chat["choices"][0]["message"]["content"]
        hot2 = {"temperature": 1.3, "max_output_tokens": 400}
        response = s.post("/v1/responses", input="Who?", seed=seed, **hot2,
                          text={"format": {"type": "json_schema", "name": "person", "schema": SCHEMA}})
        assert is_person(response["output"][0]["content"][0]["text"])
        message = s.post("/v1/messages", messages=CHAT, seed=seed, **hot,
                         output_format={"type": "json_schema", "schema": SCHEMA})
        assert is_person(message["content"][0]["text"]) and message["stop_reason"] == "end_turn"
    a = s.post("/v1/completions", prompt="{", max_tokens=40, seed=1, response_format={"type": "json_object"})
    assert a["choices"][0]["text"].lstrip().startswith("{")


def test_shapes_that_cannot_be_are_refused(s):
    completions, prompt = "/v1/completions", {"prompt": "x", "max_tokens": 4}
    for more in ({"grammar": "root ::= root2"}, {"regex": "(a"}, {"regex": "a(?=b)"}, {"guided_json": "{"},
                 {"json_schema": {"type": "no type"}},
                 {"response_format": {"type": "json_schema", "json_schema": {
                     "name": "x", "strict": True, "schema": {"uniqueItems": True, "type": "array"}}}}):
        error = refused(s, completions, "invalid_schema", **prompt, **more)
        assert error["param"] == next(iter(more)) and len(error["message"]) > 10, error
        assert refused(s, completions, "invalid_schema", **prompt, **more) == error       # it is kept
    for more in ({"grammar": 1}, {"choices": "x"}, {"choices": [1]}, {"regex": 1}, {"json_schema": [1]},
                 {"response_format": "json"}, {"response_format": {"type": 1}},
                 {"response_format": {"type": "json_schema", "json_schema": {"schema": {"a": 1},
                                                                             "strict": 1}}}):
        refused(s, completions, "invalid_type", **prompt, **more)
    refused(s, completions, "missing_required_parameter", **prompt, response_format={"type": "json_schema"})
    refused(s, completions, "unsupported_parameter", **prompt, response_format={"type": "xml"})
    refused(s, completions, **prompt, regex="a", grammar='root ::= "a"')
    refused(s, completions, "unsupported_parameter", **prompt, regex="a", beam_width=2)
    refused(s, completions, "string_above_max_length", **prompt, regex="a" * 1100000)
    # What cannot be kept, and need not be strictly, becomes any object.
    loose = {"type": "json_schema", "json_schema": {"name": "x", "schema": {
        "type": "object", "properties": {"a": {"type": "array", "uniqueItems": True}}}}}
    a = s.post(completions, prompt="x", max_tokens=9, seed=1, response_format=loose)["choices"][0]["text"]
    assert a.lstrip().startswith("{")


BOMBS = [
    {"json_schema": {"type": "object", "properties": {f"p{i}": {"pattern": "^(a|b)*c{1,30}$"}
                                                      for i in range(6000)}}},
    {"json_schema": {"allOf": [{"pattern": f"a.{{{i}}}b"} for i in range(12)]}},
    {"regex": "(" * 5000 + "a" + ")" * 5000},
    {"grammar": "root ::= " + "(" * 30000},
]


def test_bombs_are_refused_and_nobody_waits_for_them(s):
    done = []

    def throw(bomb):
        got, _, answer = s.ask("POST", "/v1/completions", {"prompt": "x", "max_tokens": 2, **bomb})
        done.append((got, answer))

    want = s.complete("Once", 30)
    threads = [threading.Thread(target=throw, args=(b,)) for b in BOMBS]
    for t in threads:
        t.start()
    while any(t.is_alive() for t in threads):
        assert s.complete("Once", 30) == want
        time.sleep(0.2)
    assert len(done) == len(BOMBS)
    for status, answer in done:
        assert status == 400 and answer["error"]["code"] == "invalid_schema", answer


def test_rows_with_grammars_answer_together_as_alone(s):
    asked = [{"response_format": FORMAT}, {"regex": "(ab|cd)*e"}, {}, {"response_format": FORMAT},
             {"choices": ["yes, of course", "no, never"]}, {"grammar": 'root ::= ("the end and " [a-z]){3}'},
             {}, {"json_schema": {"type": "array", "items": {"type": "boolean"}, "minItems": 3}},
             {"regex": "(ab|cd)*e"}, {"logprobs": 2}]
    bodies = [{"prompt": f"{i} Once upon a time " * (1 + i % 3), "max_tokens": 60, "seed": i,
               "temperature": [0, 0.9, 1.4][i % 3], **more} for i, more in enumerate(asked)]

    def ask(body):
        return s.post("/v1/completions", **body)["choices"]

    alone = [ask(b) for b in bodies]
    hits, r = s.metric("grammar_hits_total"), random.Random(3)
    for _ in range(3):
        order = r.sample(range(10), 10)
        assert together([lambda i=i: ask(bodies[i]) for i in order]) == [alone[i] for i in order]
    assert s.metric("grammar_hits_total") > hits
    with s.other("--ctx-size", "256", "--slots", "6", "--cache-sequences", "2", "--step-rows", "16") as small:
        got = together([lambda b=b: small.post("/v1/completions", **b)["choices"] for b in bodies])
        assert got == alone


# ---- tools ----

def call_of(message):
    assert message["content"] is None and len(message["tool_calls"]) >= 1, message
    for call in message["tool_calls"]:
        args = json.loads(call["function"]["arguments"])
        assert call["type"] == "function" and len(call["id"]) == 9
        assert call["function"]["name"] in ("look", "ask")
        assert args["city"] in ("Rome", "Oslo") and 1 <= args["days"] <= 9 and len(args) == 2, args
    return message["tool_calls"]


def test_calls_of_tools(s):
    with s.other("--chat-template", TEMPLATE) as t:
        chat = {"messages": CHAT, "tools": TOOLS, "max_tokens": 300, "temperature": 1.2}
        for seed in range(4):
            one = {**chat, "seed": seed, "tool_choice": "required", "parallel_tool_calls": False}
            whole = t.post("/v1/chat/completions", **one)["choices"][0]
            calls = call_of(whole["message"])
            assert whole["finish_reason"] == "tool_calls" and len(calls) == 1
            chunks = [c["choices"][0] for c in chunks_of(t, "/v1/chat/completions", **one)]
            deltas = [d for c in chunks for d in c["delta"].get("tool_calls", [])]
            assert chunks[-1]["finish_reason"] == "tool_calls" and len(deltas) > 3
            assert deltas[0]["function"] == {"name": calls[0]["function"]["name"], "arguments": ""}
            assert deltas[0]["type"] == "function" and deltas[0]["index"] == 0 and len(deltas[0]["id"]) == 9
            assert "".join(d["function"]["arguments"] for d in deltas) == calls[0]["function"]["arguments"]
        named = t.post("/v1/chat/completions", **chat, seed=3,
                       tool_choice={"type": "function", "function": {"name": "ask"}})["choices"][0]
        assert [c["function"]["name"] for c in call_of(named["message"])] == ["ask"]
        none = t.post("/v1/chat/completions", **{**chat, "max_tokens": 9}, tool_choice="none")["choices"][0]
        assert "tool_calls" not in none["message"] and isinstance(none["message"]["content"], str)
        both = t.post("/v1/chat/completions", **chat, seed=1, n=2, tool_choice="required",
                      parallel_tool_calls=False)["choices"]
        ids = [c["id"] for choice in both for c in call_of(choice["message"])]
        assert len(set(ids)) == len(ids)


def test_conversations_with_calls_become_prompts(s):
    with s.other("--chat-template", THINKS) as t:
        function = {"name": "look", "arguments": "{\"city\": \"Rome\"}"}
        call = {"id": "a", "type": "function", "function": function}
        messages = [{"role": "developer", "content": "Be"}, *CHAT,
                    {"role": "assistant", "content": None, "tool_calls": [call]},
                    {"role": "tool", "tool_call_id": "a", "content": [{"type": "text", "text": "sunny"}]},
                    {"role": "assistant", "content": "Fine", "reasoning_content": "So", "refusal": None},
                    {"role": "user", "content": "Go"}]
        want = ("<system>Be<|end|><user>Say hi<|end|><assistant><tool_call>{\"name\": \"look\", "
                "\"arguments\": {\"city\": \"Rome\"}}</tool_call><|end|><tool>sunny<|end|>"
                "<assistant><think>So</think>Fine<|end|><user>Go<|end|><assistant>")
        assert t.post("/apply-template", messages=messages)["prompt"] == want
        tools = t.post("/apply-template", messages=CHAT, tools=TOOLS)["prompt"]
        assert tools.startswith(json.dumps(TOOLS[0])), tools
        thinks = {"chat_template_kwargs": {"enable_thinking": True}}
        assert t.post("/apply-template", messages=CHAT, **thinks)["prompt"].endswith("<assistant><think>")
        assert t.post("/apply-template", messages=CHAT, enable_thinking=True)["prompt"].endswith("<think>")
        usage = [t.post("/v1/chat/completions", messages=messages, max_tokens=1)["usage"],
                 t.post("/v1/messages", max_tokens=1, system="Be", messages=[
                     *CHAT, {"role": "assistant", "content": [
                         {"type": "tool_use", "id": "a", "name": "look", "input": {"city": "Rome"}}]},
                     {"role": "user", "content": [
                         {"type": "tool_result", "tool_use_id": "a", "content": "sunny"}]},
                     {"role": "assistant", "content": [{"type": "thinking", "thinking": "So"},
                                                       {"type": "text", "text": "Fine"}]},
                     {"role": "user", "content": [{"type": "text", "text": "Go"}]}])["usage"],
                 t.post("/v1/responses", max_output_tokens=1, instructions="Be", input=[
                     *CHAT, {"type": "function_call", "call_id": "a", "name": "look",
                             "arguments": "{\"city\": \"Rome\"}"},
                     {"type": "function_call_output", "call_id": "a", "output": "sunny"},
                     {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text",
                                                                       "text": "So"}]},
                     {"type": "message", "role": "assistant", "id": "m", "status": "completed",
                      "content": [{"type": "output_text", "text": "Fine", "annotations": []}]},
                     {"role": "user", "content": [{"type": "input_text", "text": "Go"}]}])["usage"]]
        n = usage[0]["prompt_tokens"]
        assert n > 100 and usage[2]["input_tokens"] == n, usage
        assert usage[1]["input_tokens"] + usage[1]["cache_read_input_tokens"] == n, usage


def test_anthropics_and_responses_calls(s):
    with s.other("--chat-template", TEMPLATE) as t:
        tools = [{"name": f["function"]["name"], "input_schema": f["function"]["parameters"]} for f in TOOLS]
        asked = {"messages": CHAT, "tools": tools, "max_tokens": 300, "seed": 2, "temperature": 1.2,
                 "tool_choice": {"type": "any", "disable_parallel_tool_use": True}}
        whole = t.post("/v1/messages", **asked)
        block = whole["content"][0]
        assert whole["stop_reason"] == block["type"] == "tool_use" and len(whole["content"]) == 1
        assert block["name"] in ("look", "ask") and block["input"]["city"] in ("Rome", "Oslo")
        events = [json.loads(d) for d in t.events("/v1/messages", **asked)]
        names = [e["type"] for e in events]
        assert names[0] == "message_start" and names[1] == "content_block_start"
        assert names[-3:] == ["content_block_stop", "message_delta", "message_stop"]
        assert events[1]["content_block"] == {**block, "input": {}} | {"id": events[1]["content_block"]["id"]}
        text = "".join(e["delta"]["partial_json"] for e in events if e["type"] == "content_block_delta")
        assert json.loads(text) == block["input"] and events[-2]["delta"]["stop_reason"] == "tool_use"

        flat = [{"type": "function", **f["function"], "strict": True} for f in TOOLS]
        asked = {"input": "Say hi", "tools": flat, "max_output_tokens": 300, "seed": 2, "temperature": 1.2,
                 "tool_choice": {"type": "function", "name": "ask"}}
        whole = t.post("/v1/responses", **asked)
        item = whole["output"][0]
        assert item["type"] == "function_call" and item["name"] == "ask" and whole["status"] == "completed"
        assert json.loads(item["arguments"])["city"] in ("Rome", "Oslo")
        events = [json.loads(d) for d in t.events("/v1/responses", **asked)]
        assert [e["sequence_number"] for e in events] == list(range(len(events)))
        delta = [e["delta"] for e in events if e["type"] == "response.function_call_arguments.delta"]
        done = [e for e in events if e["type"] == "response.function_call_arguments.done"]
        assert "".join(delta) == item["arguments"] == done[0]["arguments"] and len(done) == 1
        last = events[-1]["response"]["output"][0]
        assert {**last, "id": 0, "call_id": 0} == {**item, "id": 0, "call_id": 0}


def test_what_clients_look_for(s):
    hello = {"messages": CHAT, "system": "Be brief."}
    whole = s.post("/v1/messages", **hello, max_tokens=20, temperature=0, cache_control={"type": "ephemeral"},
                   container=None)
    used = whole["usage"]
    assert s.post("/v1/messages/count_tokens", **hello) == {
        "input_tokens": used["input_tokens"] + used["cache_read_input_tokens"]}
    stop = whole["content"][0]["text"][3:5]
    a = s.post("/v1/messages", **hello, max_tokens=20, temperature=0, stop_sequences=[stop])
    assert a["stop_sequence"] == stop and a["stop_reason"] == "stop_sequence"
    status, _, a = s.ask("POST", "/v1/messages/nothing", {})
    assert status == 404 and a["type"] == "error" and a["error"]["type"] == "not_found_error"
    model = s.ask("GET", "/v1/models")[2]
    assert model["has_more"] is False and model["data"][0]["display_name"] == model["data"][0]["id"] == "tiny"
    error = refused(s, "/v1/completions", "context_length_exceeded", prompt="x" * 9000)
    assert "this model's maximum context length is" in error["message"]


def test_reasoning_stands_apart(s):
    with s.other("--chat-template", THINKS) as t:
        asked = {"messages": CHAT, "max_tokens": 40, "temperature": 0, "enable_thinking": True,
                 "ignore_eos": True}
        whole = t.post("/v1/chat/completions", **asked)["choices"][0]
        thought = whole["message"]["reasoning_content"]
        assert thought and whole["finish_reason"] == "length"
        chunks = [c["choices"][0]["delta"] for c in chunks_of(t, "/v1/chat/completions", **asked)]
        assert "".join(c.get("reasoning_content", "") for c in chunks) == thought
        message = t.post("/v1/messages", messages=CHAT, max_tokens=40, temperature=0, ignore_eos=True,
                         thinking={"type": "enabled", "budget_tokens": 1024})
        assert message["content"][0]["type"] == "thinking"
        assert message["content"][0]["thinking"] == thought
        response = t.post("/v1/responses", input="Say hi", max_output_tokens=40, temperature=0,
                          ignore_eos=True,
                          chat_template_kwargs={"enable_thinking": True})
        assert response["output"][0]["content"][0] == {"type": "reasoning_text", "text": thought}
        # Reasoning that the prompt began is not part of the answer's format, which starts later.
        shaped = t.post("/v1/chat/completions", **{**asked, "max_tokens": 12}, response_format=FORMAT)
        assert "reasoning_content" in shaped["choices"][0]["message"]
        assert not shaped["choices"][0]["message"]["content"]
        # An answer that is continued is past the reasoning, which a budget then cannot end.
        begun = [*CHAT, {"role": "assistant", "content": "Hi"}]
        for path, more in (("/v1/chat/completions", {"continue_final_message": True}),
                           ("/v1/chat/completions", {"continue_final_message": True, "reasoning_budget": 0}),
                           ("/v1/messages", {"thinking": {"type": "enabled", "budget_tokens": 1024}})):
            a = t.post(path, **{**asked, "messages": begun, **more})
            if path == "/v1/messages":
                assert a["content"][0]["type"] == "text" and len(a["content"]) == 1, a
            else:
                message = a["choices"][0]["message"]
                assert message["content"] and "reasoning_content" not in message, a
                assert "</think>" not in message["content"], a


def test_tools_that_are_none_are_refused(s):
    chat, path = {"messages": CHAT, "max_tokens": 2}, "/v1/chat/completions"
    for tools in ([1], [{}], [{"type": "function"}], [{"type": "function", "function": {"name": ""}}],
                  [{"type": "function", "function": {"name": "f", "parameters": []}}],
                  [{"type": "function", "function": {"name": "f", "strict": 1}}]):
        refused(s, path, **chat, tools=tools)
    refused(s, path, "invalid_type", **chat, tools={"a": 1})
    refused(s, path, "array_above_max_length", **chat, tools=TOOLS * 300)
    refused(s, path, **chat, tool_choice="required")
    refused(s, path, **chat, tools=TOOLS, tool_choice={"type": "function", "function": {"name": "other"}})
    refused(s, path, "invalid_type", **chat, tools=TOOLS, tool_choice="sometimes")
    refused(s, path, "invalid_type", **chat, chat_template_kwargs=[1])
    hard = {"type": "function", "function": {"name": "f", "strict": True, "parameters": {
        "type": "object", "properties": {"a": {"type": "array", "uniqueItems": True}}}}}
    assert refused(s, path, "invalid_schema", **chat, tools=[hard])["param"] == "tools"
    del hard["function"]["strict"]
    assert s.post(path, **chat, tools=[hard])


# ---- clients ----

def test_openai_with_shapes_and_tools(s):
    if not importlib.util.find_spec("openai"):
        return print("     the package openai is not here")
    import openai
    with s.other("--chat-template", TEMPLATE) as t:
        client = openai.OpenAI(base_url=f"http://127.0.0.1:{t.port}/v1", api_key="none")
        chat = {"model": "tiny", "messages": CHAT, "max_tokens": 300, "seed": 3}
        a = client.chat.completions.create(**chat, response_format=FORMAT)
        assert is_person(a.choices[0].message.content)
        chat["parallel_tool_calls"] = False
        a = client.chat.completions.create(**chat, tools=TOOLS, tool_choice="required").choices[0]
        assert a.finish_reason == "tool_calls"
        assert json.loads(a.message.tool_calls[0].function.arguments)["city"] in ("Rome", "Oslo")
        with client.chat.completions.stream(**chat, tools=TOOLS, tool_choice="required") as stream:
            last = stream.get_final_completion().choices[0]
        assert last.message.tool_calls[0].function.arguments == a.message.tool_calls[0].function.arguments
        a = client.chat.completions.create(**chat | {"max_tokens": 5}, logprobs=True, top_logprobs=3)
        assert len(a.choices[0].logprobs.content[0].top_logprobs) == 3
        flat = [{"type": "function", **f["function"], "strict": True} for f in TOOLS]
        asked = {"model": "tiny", "input": "Say hi", "tools": flat, "tool_choice": "required",
                 "parallel_tool_calls": False}
        a = client.responses.create(**asked)
        assert a.output[0].type == "function_call" and json.loads(a.output[0].arguments)["days"] > 0
        with client.responses.stream(**asked) as events:
            names = [e.type for e in events]
        assert "response.function_call_arguments.done" in names and names[-1] == "response.completed"


def test_anthropic_with_tools(s):
    if not importlib.util.find_spec("anthropic"):
        return print("     the package anthropic is not here")
    import anthropic
    with s.other("--chat-template", TEMPLATE) as t:
        client = anthropic.Anthropic(base_url=f"http://127.0.0.1:{t.port}", api_key="none")
        tools = [{"name": f["function"]["name"], "input_schema": f["function"]["parameters"]} for f in TOOLS]
        asked = {"model": "tiny", "messages": CHAT, "max_tokens": 300, "tools": tools,
                 "tool_choice": {"type": "any", "disable_parallel_tool_use": True},
                 "extra_body": {"seed": 3, "ignore_eos": True}}
        message = client.messages.create(**asked)
        use = message.content[0]
        assert message.stop_reason == "tool_use" and use.type == "tool_use" and use.input["days"] > 0
        with client.messages.stream(**asked) as stream:
            last = stream.get_final_message()
        assert last.content[0].input == use.input and last.stop_reason == "tool_use"
        result = [*CHAT, {"role": "assistant", "content": message.content},
                  {"role": "user", "content": [{"type": "tool_result", "tool_use_id": use.id,
                                                "content": "sunny"}]}]
        assert client.messages.create(**{**asked, "messages": result, "max_tokens": 4,
                                         "tool_choice": {"type": "none"}}).usage.output_tokens == 4


def test_smollm2_calls_a_tool(s):
    server = Server(s.program, model_path(s, "smollm2-135m-q4_1"), "--quiet")
    asked = {"messages": [{"role": "user", "content": "What is the weather in Rome for 3 days?"}],
             "tools": TOOLS, "tool_choice": "required", "temperature": 0, "max_tokens": 120}
    alone = server.post("/v1/chat/completions", **asked)["choices"][0]["message"]
    others = [lambda i=i: server.complete(f"{i} times", 20) for i in range(3)]
    got = together([lambda: server.post("/v1/chat/completions", **asked), *others])[0]
    got = got["choices"][0]["message"]["tool_calls"]
    assert [c["function"] for c in got] == [c["function"] for c in call_of(alone)]
    server.end()


if __name__ == "__main__":
    run(__doc__, globals())
