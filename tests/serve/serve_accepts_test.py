#!/usr/bin/env python3
"""What qsf-serve accepts: fields of other servers, empty values, items it cannot run.
SPDX-License-Identifier: MIT

    serve_accepts_test.py QSF_SERVE [NAME...]     the tests whose names have one of the words

If the Python packages openai and anthropic are installed, their request types are tried too: each member
with each value that its type allows.
"""
import importlib.util
import json
import pathlib
import subprocess
import types
import typing

from serve_server import CHAT, TESTS, Skip, run

CHATS, COMPLETIONS, RESPONSES = "/v1/chat/completions", "/v1/completions", "/v1/responses"
MESSAGES, EMBEDDINGS, RERANK, GENERATE = "/v1/messages", "/v1/embeddings", "/v1/rerank", "/generate"
PLAIN = {CHATS: {"messages": CHAT, "max_tokens": 2}, COMPLETIONS: {"prompt": "Hi", "max_tokens": 2},
         RESPONSES: {"input": "Hi", "max_output_tokens": 2}, GENERATE: {"prompt": "Hi", "max_tokens": 2},
         MESSAGES: {"messages": CHAT, "max_tokens": 2}, EMBEDDINGS: {"input": "Hi"},
         RERANK: {"query": "a", "documents": ["b"]}}
ANSWERS = CHATS, COMPLETIONS, RESPONSES, MESSAGES, GENERATE
ECHO = ("{% for t in tools or [] %}{{ t | tojson }}{% endfor %}{% for m in messages %}<{{ m.role }}>"
        "{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content or '' }}"
        "{% for c in m.tool_calls or [] %}<tool_call>{\"name\": \"{{ c.function.name }}\", \"arguments\": "
        "{{ c.function.arguments | tojson }}}</tool_call>{% endfor %}<|end|>{% endfor %}"
        "{{ reasoning_effort }}{{ verbosity }}{% if add_generation_prompt %}<assistant>{% endif %}")

# Without reasoning, because a random model writes a lot of it.
CALLS = ECHO.replace("{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}", "")


def ok(s, path, **more):
    """The answer, and the names of the ignored fields."""
    status, headers, answer = s.ask("POST", path, {**PLAIN[path], **more})
    assert status == 200, (status, path, json.dumps(more)[:300], answer)
    return answer, [x for x in (headers.get("x-qsf-ignored") or "").split(", ") if x]


def prompt_of(s, path, **body):
    """The rendered prompt of a request, or its length with a tiny context of bytes."""
    usage = ok(s, path, **body)[0]["usage"]
    return usage.get("prompt_tokens") or usage["input_tokens"] + usage.get("cache_read_input_tokens", 0)


# ---- fields ----

NOWHERE = {"cache_prompt": True, "id_slot": 0, "tempersture": 1,
           "num_ctx": 4096, "keep_alive": "5m", "n_keep": 4, "min_keep": 1, "post_sampling_probs": True,
           "spaces_between_special_tokens": True, "t_max_predict_ms": 100}
ANYWHERE = {  # field: values that all APIs with answers accept
    "max_tokens": [-1, 100.0, 1e12, 2**63, None, 3], "n_predict": [-1, 2], "num_predict": [-2, 2.0],
    "stop": ["", [], {}, None, [""], ["x", None, ""], "x"], "seed": [-1, 0, 42.0, 2**64 - 1, None],
    "temperature": [0, 0.7, None, 2], "top_k": [0, -1, 40.0], "top_p": [0, 1, 0.5], "min_p": [0.05],
    "typ_p": [1.0], "repeat_last_n": [-1, 0, 64], "penalty_repeat": [1.1], "penalty_last_n": [64],
    "penalty_freq": [0.5], "penalty_present": [0.5], "repetition_penalty": [1.05],
    "logit_bias": [None, {}, [], {"97": 1}, [[97, False]]], "stop_token_ids": [[], [5], None],
    "options": [{}, {"num_ctx": 8, "temperature": 0, "num_predict": 2, "stop": ["a"], "mirostat": 0}],
    "timings_per_token": [True], "return_tokens": [True], "stream_options": [{}, None, [], {"x": 1}],
    "samplers": [["top_k", "temperature"], "ekt", [], "", None],
    "include_stop_str_in_output": [True, False, None], "ignore_eos": [False], "bad_words": [[], None],
    "grammar": ["", None], "user": ["me", None],
    "priority": [0], "dry_sequence_breakers": [["\n"], []], "lora": [[], None], "response_fields": [["x"]],
    "metadata": [{"user_id": "x"}], "extra": [{"a": [1, {"b": None}]}, "x", 1, True, False, None],
    "guided_decoding_backend": ["outlines"],
    "structured_outputs": [{}, None, {"disable_any_whitespace": True}],
    **{k: [v] for k, v in NOWHERE.items()},
}
NONE = {"type": "object", "properties": {}, "additionalProperties": False}
TOOL = {"type": "function", "function": {"name": "f", "parameters": NONE}}
FLAT = {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}, "strict": False}
OWN = {"name": "f", "input_schema": {"type": "object", "properties": {}}}
HOSTED = [{"type": t} for t in ("web_search", "web_search_preview", "local_shell", "image_generation",
                                "tool_search", "code_interpreter", "computer_use_preview", "shell")] + [
    {"type": "mcp", "server_label": "x", "server_url": "http://x"},
    {"type": "web_search_20250305", "name": "web_search", "max_uses": 5},
    {"type": "code_execution_20250522", "name": "code_execution"},
    {"type": "bash_20250124", "name": "bash"}]
ONLY = {
    CHATS: {"prompt_logprobs": [None, 0, 2],
            "modalities": [["text"], [], None, ["text", "audio"]], "verbosity": ["low", "medium", "high"],
            "tool_choice": [{"type": "auto"}, {"type": "none"}, "auto", "none", None], "audio": [None, {}],
            "reasoning_effort": ["none", "minimal", "low", "medium", "high", "xhigh", "", None],
            "think": [True, False, "low"], "reasoning": [{"effort": "low"}, {"enabled": False}, {}],
            "thinking": [{"type": "enabled"}, {"type": "disabled"}], "functions": [[], None],
            "function_call": ["none", "auto"], "n_probs": [0, 3], "top_logprobs": [0, 3, None],
            "logprobs": [True, False, None, 2], "tools": [[], None, [TOOL], [FLAT], [OWN], HOSTED],
            "prediction": [{"type": "content", "content": "x"}], "web_search_options": [{}],
            "service_tier": ["auto", "flex"], "store": [True], "documents": [[{"text": "x"}], []],
            "response_format": [{"type": "text"}, {}, None], "chat_template": ["x"]},
    COMPLETIONS: {"prompt_logprobs": [None, 0, 2],
                  "n_probs": [0, 5], "logprobs": [None, 0, 2, 2.0], "best_of": [1, 0], "suffix": ["", None],
                  "skip_special_tokens": [True, False], "echo": [True]},
    RESPONSES: {"truncation": ["disabled", "auto"], "background": [False, True], "store": [True, False],
                "include": [[], ["reasoning.encrypted_content", "file_search_call.results"]],
                "text": [{}, {"verbosity": "low"}, {"format": {"type": "text"}, "verbosity": "high"}],
                "reasoning": [{}, {"effort": "high", "summary": "auto"}, {"effort": None}, None],
                "tool_choice": [{"type": "auto"}, "auto", {"type": "web_search_preview"}, {"type": "mcp"}],
                "tools": [[], [FLAT], HOSTED, [TOOL]], "previous_response_id": [None, ""],
                "max_tool_calls": [3], "prompt": [None], "conversation": [None], "service_tier": ["default"],
                "prompt_cache_key": ["x"], "top_logprobs": [0, 2], "client_metadata": [{"a": "b"}],
                "instructions": [None, "", "Be", [{"role": "system", "content": "Be"}]]},
    MESSAGES: {"output_config": [*({"effort": e} for e in ("low", "high", "xhigh", "max")), {}, None],
               "context_management": [{"edits": [{"type": "clear_tool_uses_20250919"}]}],
               "thread": [{"id": 1}], "speed": ["fast"],
               "mcp_servers": [[{"type": "url", "url": "http://x", "name": "x"}], []],
               "thinking": [{"type": "enabled", "budget_tokens": 1024}, {"type": "disabled"}, {}, None, True,
                            {"type": "adaptive", "display": "summarized"}, {"type": "auto"}],
               "tool_choice": [{"type": "auto"}, {"type": "none"}, {"type": "auto", "x": 1}],
               "tools": [[], [OWN], [OWN, *HOSTED], [{**OWN, "type": "custom", "cache_control": None}]],
               "system": ["", [], None, "Be", [{"type": "text", "text": "Be", "cache_control": {"x": 1}}]],
               "service_tier": ["auto"], "container": ["x", None], "stop_sequences": [[], None, ["x"]],
               "betas": [["x"]], "inference_geo": ["us"], "cache_control": [{"type": "ephemeral"}]},
    EMBEDDINGS: {"encoding_format": ["float", "base64", None], "user": ["x"], "dimensions": [2, 2.0, None],
                 "truncate_prompt_tokens": [10], "stream": [True], "temperature": [1], "priority": [1]},
    RERANK: {"rank_fields": [["a"]], "top_n": [1, None], "max_tokens_per_doc": [9],
             "return_documents": [True]},
}


def test_fields_and_values_that_programs_send(s):
    count = 0
    for path, fields in [(p, ANYWHERE) for p in ANSWERS] + list(ONLY.items()):
        for name, values in fields.items():
            for value in values:
                _, ignored = ok(s, path, **{name: value})
                count += 1
                assert name not in NOWHERE or ignored == [name], (path, name, ignored)
    assert count > 500, count


def test_names_of_ignored_fields_are_safe(s):
    odd = {"a\r\nSet-Cookie: x": 1, "é": 1, "x" * 500: 1, "": 1, "a b": 1, "ok-1.2": 1}
    _, ignored = ok(s, COMPLETIONS, **odd)
    assert ignored == ["a__Set-Cookie:_x", "__", "x" * 60, "a_b", "ok-1.2"] or len(ignored) == 6, ignored
    many = {f"field{i}": 1 for i in range(99)}
    status, headers, _ = s.ask("POST", COMPLETIONS, {**PLAIN[COMPLETIONS], **many})
    assert status == 200 and len(headers["x-qsf-ignored"]) < 400
    assert headers["x-qsf-ignored"].endswith(", ...") and headers.get("Set-Cookie") is None
    status, headers, _ = s.ask("POST", CHATS, {**PLAIN[CHATS], "id_slot": 1, "stream": True})
    assert status == 200 and headers["x-qsf-ignored"] == "id_slot"


def test_strict_refuses_what_is_not_known(s):
    with s.other("--strict") as t:
        for path, more in ((COMPLETIONS, {"id_slot": 1}), (CHATS, {"tempersture": 1}),
                           (CHATS, {"messages": [{**CHAT[0], "annotations": [1]}]}),
                           (CHATS, {"tools": [{"type": "web_search"}]}), (EMBEDDINGS, {"temperature": 1})):
            status, _, answer = t.ask("POST", path, {**PLAIN[path], **more})
            assert status == 400 and answer["error"]["code"] == "unsupported_parameter", answer
        ok(t, CHATS, user="me", store=True, metadata={}, id_slot=None, functions=[], audio=None)


def test_the_document_lists_all_fields(s):
    lister = pathlib.Path(s.program).parent / "tests" / "request_fields"
    if not lister.exists():
        lister = next(pathlib.Path(s.program).parent.rglob("request_fields"), None)
    if not lister:
        raise Skip("this build has no program request_fields", False)
    table = subprocess.run([lister], capture_output=True, text=True, check=True).stdout
    document = (TESTS.parent / "docs" / "serve.md").read_text()
    assert table in document, "docs/serve.md has another table than build/.../request_fields writes"


# ---- models and lengths ----

def test_any_name_is_the_only_model(s):
    for name in ("gpt-4o-mini", "claude-sonnet-4-5", "", None, "org/x", "tiny", "TINY", "tiny.gguf",
                 "tiny:latest"):
        for path in PLAIN:
            answer, _ = ok(s, path, model=name)
            assert answer["model"] == "tiny", answer
    assert s.ask("GET", "/v1/models/gpt-4o-mini")[0] == 404
    assert s.ask("GET", "/v1/models/tiny")[2]["id"] == "tiny"


def test_more_tokens_than_the_context_end_with_length(s):
    a, _ = ok(s, CHATS, max_tokens=10**9, ignore_eos=True)
    assert a["choices"][0]["finish_reason"] == "length" and a["usage"]["total_tokens"] >= 1000
    a, _ = ok(s, CHATS, max_completion_tokens=3.0, max_tokens=None, ignore_eos=True)
    assert a["usage"]["completion_tokens"] == 3
    status, _, a = s.ask("POST", MESSAGES, {"messages": CHAT})          # without a limit
    assert status == 200 and a["stop_reason"] in ("max_tokens", "end_turn")


def test_samplers_have_other_servers_names(s):
    asked = {"prompt": "Once", "temperature": 1.2, "seed": 11, "ignore_eos": True}
    want = s.post(COMPLETIONS, **asked, max_tokens=9, top_k=3, repeat_penalty=1.5)["choices"][0]["text"]
    for more in ({"n_predict": 9, "top_k": 3, "penalty_repeat": 1.5},
                 {"options": {"num_predict": 9, "top_k": 3.0, "repeat_penalty": 1.5}},
                 {"max_tokens": 9, "top_k": 3, "repetition_penalty": 1.5, "options": {"num_predict": 4}}):
        got = s.post(COMPLETIONS, **asked, **more)
        assert got["choices"][0]["text"][:len(want)] == want, (more, got, want)
    random = {s.complete("Once", 9, seed=-1) for _ in range(2)}
    assert len(random) == 1                                              # at temperature 0
    texts = {s.post(COMPLETIONS, prompt="Once", max_tokens=9, seed=-1)["choices"][0]["text"]
             for _ in range(8)}
    assert len(texts) > 1
    asked = {"prompt": "Once", "max_tokens": 2, "n_probs": 3, "ignore_eos": True}
    probs = s.post(COMPLETIONS, **asked)["choices"][0]["logprobs"]
    assert len(probs["top_logprobs"][0]) == 3


def test_tokens_that_stop_an_answer(s):
    asked = {"prompt": "Once", "max_tokens": 12, "temperature": 0, "ignore_eos": True}
    whole = s.post(COMPLETIONS, **asked, logprobs=0)["choices"][0]
    ids = [s.post("/tokenize", content=t)["tokens"] for t in whole["logprobs"]["tokens"]]
    at = next(i for i in range(2, 12) if len(ids[i]) == 1 and ids[i] not in ids[:i])
    got = s.post(COMPLETIONS, **asked, stop_token_ids=ids[at])
    assert got["choices"][0]["finish_reason"] == "stop" and got["usage"]["completion_tokens"] == at + 1
    text = got["choices"][0]["text"].rstrip("\ufffd")
    assert text and whole["text"].startswith(text), (whole, got)


# ---- messages ----

CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def test_members_and_parts_of_messages(s):
    odd = {"annotations": [1], "refusal": None, "reasoning_details": [{"text": "x"}], "audio": None,
           "thinking_blocks": [{"x": 1}], "cache_control": {"type": "ephemeral"}, "id": "x", "timestamp": 1,
           "prefix": False, "provider_specific_fields": {"a": 1}, "function_call": None, "tool_calls": None}
    with s.other("--chat-template", ECHO) as t:
        def rendered(*messages, **more):
            return t.post("/apply-template", messages=list(messages), **more)["prompt"]

        plain = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"},
                 {"role": "user", "content": "Go"}]
        want = rendered(*plain)
        for name, value in odd.items():
            assert rendered(plain[0], {**plain[1], name: value}, plain[2]) == want, name
            _, ignored = ok(t, CHATS, messages=[plain[0], {**plain[1], name: value}, plain[2]])
            assert ignored == ([f"messages.{name}"] if value else []), (name, ignored)
        assert rendered(plain[0], {"role": "assistant", "content": None, "refusal": "Ho"}, plain[2]) == want
        assert rendered({"role": "user", "content": ["H", {"type": "text", "text": "i"}]}, *plain[1:]) == want
        assert rendered({"role": "user", "content": {"type": "text", "text": "Hi"}}, *plain[1:]) == want
        assert rendered(plain[0], {"role": "assistant", "content": [{"type": "refusal", "refusal": "Ho"}]},
                        plain[2]) == want
        old = rendered(plain[0], {"role": "assistant", "content": None, "function_call": CALL["function"]},
                       {"role": "function", "name": "f", "content": "7"})
        new = rendered(plain[0], {"role": "assistant", "content": None, "tool_calls": [CALL]},
                       {"role": "tool", "tool_call_id": "c", "content": "7"})
        assert old == new and "<tool>7" in new, (old, new)
        custom = {"id": "c", "type": "custom", "custom": {"name": "f", "input": "a\"b"}}
        assert '{"input": "a\\"b"}' in rendered(plain[0], {"role": "assistant", "tool_calls": [custom]})
        seen = rendered(plain[0], {"role": "tool", "tool_call_id": "c", "content": [
            {"type": "image_url", "image_url": {"url": "data:x"}}, {"type": "text", "text": "7"}]})
        assert "image" in seen and "7" in seen and "data:x" not in seen
        assert rendered(plain[0], {"role": "assistant", "content": "The", "prefix": True}).endswith(">The")
        assert rendered(*plain, reasoning_effort="low", verbosity="high") == want.removesuffix(
            "<assistant>") + "lowhigh<assistant>"
    status, _, a = s.ask("POST", CHATS, {"messages": [{"role": "user", "content": [
        {"type": "image_url", "image_url": {"url": "data:x"}}]}]})
    assert status == 400 and "text only" in a["error"]["message"]


ITEMS = [{"role": "user", "content": "Go"},
         {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "thought"}],
          "encrypted_content": "secret"},
         {"type": "custom_tool_call", "id": "ctc", "call_id": "c1", "name": "patch", "input": "*** Begin"},
         {"type": "custom_tool_call_output", "call_id": "c1", "output": "patched"},
         {"type": "local_shell_call", "id": "l", "call_id": "c2", "status": "completed",
          "action": {"type": "exec", "command": ["ls", "-l"], "env": {}}},
         {"type": "local_shell_call_output", "id": "c2", "output": "listed"},
         {"type": "web_search_call", "id": "w", "status": "completed",
          "action": {"type": "search", "query": "searched"}},
         {"type": "function_call", "call_id": "c3", "name": "f", "arguments": "{}", "namespace": "space"},
         {"type": "function_call_output", "call_id": "c3", "output": [
             {"type": "input_text", "text": "seven"}, {"type": "input_image", "image_url": "data:x"}]},
         {"type": "compaction", "id": "cmp", "encrypted_content": "secret"},
         {"type": "item_reference", "id": "msg_none_0"},
         {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "refused"}]},
         {"type": "mcp_call", "name": "m", "server_label": "x", "arguments": "{}", "output": "called"},
         {"type": "image_generation_call", "id": "i", "result": "drawn", "status": "completed"},
         {"role": "user", "content": [{"type": "input_text", "text": "Now"}]}]


def test_items_become_text_that_a_model_can_read(s):
    with s.other("--chat-template", ECHO) as t:
        a, ignored = ok(t, RESPONSES, input=ITEMS, store=True)
        assert ignored == ["input.item_reference"]
        echoed = t.post(RESPONSES, input="x", previous_response_id=a["id"], max_output_tokens=1)
        assert echoed["usage"]["input_tokens"] > a["usage"]["input_tokens"]
        for i, item in enumerate(ITEMS):
            ok(t, RESPONSES, input=[ITEMS[0], item])
        lengths = [ok(t, RESPONSES, input=[ITEMS[0], item])[0]["usage"]["input_tokens"]
                   for item in ITEMS[1:-1]]
        assert sum(n <= lengths[9] for n in lengths) == 1, lengths      # only the reference adds nothing
    blocks = [{"type": "text", "text": "a"}, {"type": "document", "title": "t", "source": {
                  "type": "text", "media_type": "text/plain", "data": "words"}},
              {"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": "w"}]}},
              {"type": "search_result", "title": "t", "source": "x", "content": [
                  {"type": "text", "text": "w"}]}]
    for block in blocks:
        ok(s, MESSAGES, messages=[{"role": "user", "content": [block]}])
    for block in ({"type": "server_tool_use", "id": "x", "name": "web_search", "input": {"query": "q"}},
                  {"type": "redacted_thinking", "data": "x"},
                  {"type": "thinking", "thinking": "", "signature": ""},
                  {"type": "web_search_tool_result", "tool_use_id": "x", "content": [
                      {"type": "web_search_result", "title": "t", "url": "u", "encrypted_content": "x"}]}):
        ok(s, MESSAGES, messages=[*CHAT, {"role": "assistant", "content": [block]}, *CHAT])
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "x"}}
    result = {"type": "tool_result", "tool_use_id": "x", "content": [image, {"type": "text", "text": "a"}]}
    ok(s, MESSAGES, messages=[*CHAT, {"role": "assistant", "content": [
        {"type": "tool_use", "id": "x", "name": "f", "input": {}}]}, {"role": "user", "content": [result]}])
    for block in (image, {"type": "document", "source": {"type": "base64", "data": "x"}}):
        status, _, a = s.ask("POST", MESSAGES, {**PLAIN[MESSAGES], "messages": [
            {"role": "user", "content": [block]}]})
        assert status == 400 and "text only" in a["error"]["message"], a


def test_a_changing_first_line_does_not_defeat_the_cache(s):
    long = "You are a careful assistant. " * 9

    def ask(i, **more):
        system = [{"type": "text", "text": f"x-anthropic-billing-header: cc_version=2; cch={i * 7919};"},
                  {"type": "text", "text": long, "cache_control": {"type": "ephemeral"}}]
        return ok(s, MESSAGES, system=system, **more)

    ask(1)
    a, ignored = ask(2)
    assert ignored == ["system.x-anthropic-billing-header"]
    assert a["usage"]["cache_read_input_tokens"] > 200, a["usage"]
    body = {**PLAIN[MESSAGES], "system": f"x-session-id: 9\n{long}"}
    assert s.post(MESSAGES, **body)["usage"]["cache_read_input_tokens"] > 200
    events = [json.loads(d) for d in s.events(MESSAGES, **body)]
    start, delta = events[0]["message"]["usage"], events[-2]["usage"]
    assert events[0]["type"] == "message_start" and start["cache_read_input_tokens"] > 200, start
    same = "input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"
    assert [start[k] for k in same] == [delta[k] for k in same]
    assert delta["output_tokens"] in (1, 2), delta          # the first may be drawn to be the last


# ---- tools ----

def test_tools_that_are_functions_for_the_model(s):
    patch = {"type": "custom", "name": "patch", "description": "Edits", "format": {
        "type": "grammar", "syntax": "regex", "definition": "[ab]{3}"}}
    space = {"type": "namespace", "name": "files__", "description": "x", "tools": [
        {"type": "function", "name": "read", "parameters": NONE}]}
    one = {"max_output_tokens": 200, "temperature": 1.2, "parallel_tool_calls": False}
    with s.other("--chat-template", CALLS) as t:
        asked = {**one, "tools": [patch, *HOSTED], "seed": 3,
                 "tool_choice": {"type": "custom", "name": "patch"}}
        a, ignored = ok(t, RESPONSES, **asked)
        call = a["output"][0]
        assert call["type"] == "custom_tool_call" and call["name"] == "patch", call
        assert call["id"].startswith("ctc_")
        assert len(call["input"]) == 3 and set(call["input"]) <= {"a", "b"}, call
        assert "tools.web_search" in ignored and "tools.bash_20250124" in ignored
        events = [json.loads(d) for d in t.events(RESPONSES, input="Hi", **asked)]
        kinds = [e["type"] for e in events]
        assert kinds[2:] == ["response.output_item.added", "response.custom_tool_call_input.delta",
                             "response.custom_tool_call_input.done", "response.output_item.done",
                             "response.completed"], kinds
        assert events[4]["input"] == call["input"] and events[5]["item"] == events[6]["response"]["output"][0]
        back = t.post(RESPONSES, **{**one, "max_output_tokens": 2}, input=[*CHAT, call, {
            "type": "custom_tool_call_output", "call_id": call["call_id"], "output": "done"}])
        assert back["status"] in ("completed", "incomplete")
        a, _ = ok(t, RESPONSES, **one, tools=[space], tool_choice="required")
        call = a["output"][0]
        assert (call["type"], call["name"], call["namespace"]) == ("function_call", "read", "files__"), call
        chat = {"max_tokens": 200, "temperature": 1.2, "parallel_tool_calls": False}
        inner = {"type": "custom", "custom": {"name": "patch", "format": {"type": "grammar", "grammar": {
            "syntax": "regex", "definition": "[ab]{3}"}}}}
        a, _ = ok(t, CHATS, **chat, seed=1, tools=[inner], tool_choice="required")
        call = a["choices"][0]["message"]["tool_calls"][0]
        assert call["type"] == "custom" and len(call["custom"]["input"]) == 3, call
        data = [json.loads(d)["choices"][0]["delta"] for d in t.events(
            CHATS, **chat, messages=CHAT, seed=1, tools=[inner], tool_choice="required") if d != "[DONE]"]
        deltas = [d["tool_calls"][0] for d in data if "tool_calls" in d]
        assert [d["custom"]["input"] for d in deltas] == ["", call["custom"]["input"]], deltas
        allowed = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [
            {"type": "function", "function": {"name": "g"}}]}}
        two = [TOOL, {"type": "function", "function": {**TOOL["function"], "name": "g"}}]
        for seed in range(4):
            a, _ = ok(t, CHATS, **chat, tools=two, tool_choice=allowed, seed=seed)
            assert a["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "g"
        a, _ = ok(t, CHATS, **chat, functions=[TOOL["function"]], function_call={"name": "f"})
        assert a["choices"][0]["finish_reason"] == "function_call"
        assert a["choices"][0]["message"]["function_call"]["name"] == "f"
        data = [json.loads(d)["choices"][0] for d in t.events(
            CHATS, **chat, messages=CHAT, functions=[TOOL["function"]], function_call={"name": "f"})
            if d != "[DONE]"]
        assert data[1]["delta"]["function_call"]["name"] == "f"
        assert data[-1]["finish_reason"] == "function_call"
        a, ignored = ok(t, CHATS, tools=HOSTED, tool_choice="required")
        assert "tool_calls" not in a["choices"][0]["message"] and len(ignored) == len(HOSTED)


# ---- stored responses ----

def test_responses_are_continued_and_fetched(s):
    with s.other("--chat-template", ECHO, "--api-key", "a", "--api-key", "b") as t:
        def ask(method, path, body=None, key="a"):
            return t.ask(method, path, body, {"Authorization": f"Bearer {key}"})

        first = ask("POST", RESPONSES, {"input": "One", "instructions": "Be", "max_output_tokens": 5,
                                        "metadata": {"a": "b"}, "temperature": 0})[2]
        assert first["metadata"] == {"a": "b"} and first["instructions"] == "Be" and first["store"] is True
        assert ask("GET", f"{RESPONSES}/{first['id']}")[2] == first
        answer = first["output"][0]["content"][0]["text"]
        more = {"max_output_tokens": 1, "temperature": 0}
        items = [{"role": "user", "content": "One"}, {"role": "assistant", "content": answer},
                 {"role": "user", "content": "Two"}]
        want = ask("POST", RESPONSES, {**more, "input": items})[2]
        got = ask("POST", RESPONSES, {**more, "input": "Two", "previous_response_id": first["id"]})[2]
        assert got["usage"]["input_tokens"] == want["usage"]["input_tokens"], (got, want)
        assert got["output"][0]["content"] == want["output"][0]["content"]
        assert got["previous_response_id"] == first["id"]
        third = ask("POST", RESPONSES, {**more, "input": "Three", "previous_response_id": got["id"]})[2]
        assert third["usage"]["input_tokens"] > got["usage"]["input_tokens"]
        items[1] = {"type": "item_reference", "id": first["output"][0]["id"]}
        got = ask("POST", RESPONSES, {**more, "input": items})[2]
        assert got["usage"]["input_tokens"] == want["usage"]["input_tokens"]
        count = ask("POST", f"{RESPONSES}/input_tokens", {"input": items})[2]
        assert count == {"object": "response.input_tokens", "input_tokens": want["usage"]["input_tokens"]}
        assert ask("POST", f"{CHATS}/input_tokens", {"messages": CHAT})[2]["input_tokens"] > 3
        # They belong to their client, who can delete them.
        assert ask("GET", f"{RESPONSES}/{first['id']}", key="b")[0] == 404
        status, _, a = ask("POST", RESPONSES, {"input": "x", "previous_response_id": first["id"]}, key="b")
        assert status == 400 and a["error"]["code"] == "previous_response_not_found"
        assert ask("DELETE", f"{RESPONSES}/{first['id']}")[2]["deleted"] is True
        assert ask("GET", f"{RESPONSES}/{first['id']}")[0] == 404
        gone = ask("POST", RESPONSES, {**more, "input": "x", "store": False})[2]
        assert ask("GET", f"{RESPONSES}/{gone['id']}")[0] == 404
        for _ in range(520):
            last = ask("POST", RESPONSES, {"input": "x", "max_output_tokens": 0})[2]
        assert ask("GET", f"{RESPONSES}/{third['id']}")[0] == 404      # the oldest are evicted
        assert ask("GET", f"{RESPONSES}/{last['id']}")[0] == 200


def test_events_of_responses(s):
    events = [json.loads(d) for d in s.events(RESPONSES, input="Hi", max_output_tokens=4, ignore_eos=True)]
    kinds = [e["type"].removeprefix("response.") for e in events]
    assert kinds[:4] == ["created", "in_progress", "output_item.added", "content_part.added"], kinds
    assert kinds[-4:] == ["output_text.done", "content_part.done", "output_item.done", "incomplete"], kinds
    first, last = events[0]["response"], events[-1]["response"]
    assert first["output"] == [] and first["created_at"] > 1e9 and first["model"] == "tiny"
    assert first["status"] == "in_progress" and first["usage"] is None and first["id"] == last["id"]
    assert events[-2]["item"] == last["output"][0] and events[2]["item"]["id"] == last["output"][0]["id"]
    assert {e["item_id"] for e in events if "item_id" in e} == {last["output"][0]["id"]}
    wanted = {"tools", "tool_choice", "text", "reasoning", "metadata", "store", "truncation", "usage",
              "top_p", "temperature", "parallel_tool_calls", "previous_response_id", "max_output_tokens",
              "error",
              "instructions", "incomplete_details", "background", "service_tier"}
    assert wanted <= set(first), wanted - set(first)


# ---- the types of the official packages ----

MADE_UP = {  # members whose type allows more than they accept
    "model": ["tiny"], "messages": [CHAT], "prompt": ["Hi"], "input": ["Hi"], "max_tokens": [2],
    "max_completion_tokens": [2], "max_output_tokens": [2], "logit_bias": [{"97": 1}], "n": [1],
    "stream": [False], "best_of": [1],
    "previous_response_id": [None], "schema": [{"type": "object"}], "suffix": [""], "parameters": [{}],
    "input_schema": [{"type": "object"}], "definition": ["a"], "arguments": ["{}"], "top_p": [0.5],
    "strict": [True, False, None], "description": ["x"], "conversation": [None], "temperature": [1],
    "dimensions": [2], "timeout": [1], "extra_headers": [], "extra_body": [], "extra_query": [],
}


def values_of(kind, depth=0):
    """Values of a type: all of its literals, one of every other type."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Required, typing.NotRequired, typing.Annotated):
        return values_of(args[0], depth)
    if origin is typing.Literal:
        return list(args)
    if origin in (typing.Union, types.UnionType):
        return [v for a in args for v in values_of(a, depth)]
    if hasattr(kind, "__required_keys__"):                                # a TypedDict
        return values_of_dict(kind, depth)
    if origin in (dict, typing.Mapping) or kind is dict or str(origin).endswith("Mapping'>"):
        return [{}, *({"a": v} for v in values_of(args[1], depth + 1)[:1])] if args else [{}]
    if origin is not None and args:                                       # a list of some kind
        return [[], *([v] for v in values_of(args[0], depth + 1))]
    simple = {str: ["x"], int: [1], float: [0.5], bool: [True, False], type(None): [None], object: ["x", {}]}
    return simple.get(kind, [])


def values_of_dict(kind, depth):
    hints = typing.get_type_hints(kind, include_extras=True)
    if depth > 4:
        return []
    all_of = {name: MADE_UP.get(name) or values_of(t, depth + 1) for name, t in hints.items()
              if name not in ("extra_headers", "extra_body", "extra_query")}
    required = [name for name, t in hints.items() if typing.get_origin(t) is typing.Required]
    base = {name: all_of[name][0] for name in required if all_of.get(name)}
    if len(base) < len(required):
        return []
    return [base, *({**base, name: v} for name, values in all_of.items() for v in values
                    if base.get(name) != v)]


def probe(s, path, kind):
    """The refusals of a type's members, one at a time, except for images and missing objects."""
    fair = ("text only", "only text output", "no tool is named", "asks for a tool", "is empty", "no schema",
            "\"prompt\\\" is not supported")
    refused, count = [], 0
    hints = typing.get_type_hints(kind, include_extras=True)
    special = {"messages", "input", "prompt"}
    for name, t in hints.items():
        values = values_of(t) if name in special else MADE_UP.get(name) or values_of(t)
        for value in values:
            if name in special and not value:
                continue
            count += 1
            status, _, a = s.ask("POST", path, {**PLAIN[path], name: value})
            if status != 200 and not any(w in json.dumps(a) for w in fair):
                refused.append((name, json.dumps(value)[:120], json.dumps(a)[:160]))
    return refused, count


def test_members_of_the_official_types(s):
    if not importlib.util.find_spec("openai") or not importlib.util.find_spec("anthropic"):
        raise Skip("no Python packages openai and anthropic", False)
    import anthropic.types
    import openai.types.chat.completion_create_params
    import openai.types.completion_create_params
    import openai.types.embedding_create_params
    import openai.types.responses.response_create_params
    kinds = [(CHATS, openai.types.chat.completion_create_params.CompletionCreateParamsBase),
             (COMPLETIONS, openai.types.completion_create_params.CompletionCreateParamsBase),
             (RESPONSES, openai.types.responses.response_create_params.ResponseCreateParamsBase),
             (EMBEDDINGS, openai.types.embedding_create_params.EmbeddingCreateParams),
             (MESSAGES, anthropic.types.message_create_params.MessageCreateParamsBase),
             (MESSAGES, anthropic.types.beta.message_create_params.MessageCreateParamsBase)]
    with s.other("--queue", "1000") as t:
        for path, kind in kinds:
            refused, count = probe(t, path, kind)
            print(f"     {path} {kind.__module__.split('.')[0]}: {count} values")
            assert not refused, "\n".join(map(str, refused[:40])) + f"\n{len(refused)} of {count}"


if __name__ == "__main__":
    run(__doc__, globals())
