#!/usr/bin/env python3
"""How qsf-serve chooses tokens: log probabilities, biases, banned strings, samplers, best_of.
SPDX-License-Identifier: MIT

    serve_tokens_test.py QSF_SERVE [--models DIR] [NAME...]     the tests whose names have one of the words
"""
import json
import math

from serve_fields_test import chunks_of, refused
from serve_server import CHAT, Server, model_path, run, together


def test_log_probabilities(s):
    asked = {"prompt": "Once upon", "max_tokens": 12, "temperature": 0, "ignore_eos": True, "logprobs": 3}
    whole = s.post("/v1/completions", **asked)
    a = whole["choices"][0]
    lists = a["logprobs"]
    assert {len(v) for v in lists.values()} == {12} and whole["usage"]["completion_tokens"] == 12
    assert a["text"] == s.complete("Once upon", 12)
    for token, p, top, offset in zip(*(lists[k] for k in ("tokens", "token_logprobs", "top_logprobs",
                                                           "text_offset"))):
        assert p <= 0 and len(top) == 3 and max(top.values()) == p
        assert sum(map(math.exp, top.values())) < 1.001
        assert token in top or "bytes:" in "".join(top), (token, top)
        assert offset <= len(a["text"])
    chunks = chunks_of(s, "/v1/completions", **asked)
    got = [c["choices"][0]["logprobs"] for c in chunks if c["choices"][0]["logprobs"]]
    assert sum((c["token_logprobs"] for c in got), []) == lists["token_logprobs"]
    assert sum((c["text_offset"] for c in got), []) == lists["text_offset"]

    chat = {"messages": CHAT, "max_tokens": 12, "temperature": 0, "logprobs": True, "top_logprobs": 2}
    whole = s.post("/v1/chat/completions", **chat)
    content = whole["choices"][0]["logprobs"]["content"]
    assert len(content) == whole["usage"]["completion_tokens"]
    for token in content:
        assert len(token["top_logprobs"]) == 2 and token["logprob"] == token["top_logprobs"][0]["logprob"]
        assert bytes(token["bytes"]).decode(errors="replace") == token["token"]
    chunks = chunks_of(s, "/v1/chat/completions", **chat)
    got = [c["choices"][0]["logprobs"] for c in chunks if c["choices"][0]["logprobs"]]
    assert sum((c["content"] for c in got), []) == content
    plain = s.post("/v1/chat/completions", messages=CHAT, max_tokens=2)["choices"][0]
    assert plain["logprobs"] is None
    response = s.post("/v1/responses", input="Say hi", max_output_tokens=12, temperature=0, top_logprobs=2,
                      include=["message.output_text.logprobs"])
    assert response["output"][0]["content"][0]["logprobs"] == content
    events = [json.loads(d) for d in s.events("/v1/responses", input="Say hi", max_output_tokens=12,
                                              temperature=0, top_logprobs=2)]
    got = sum((e["logprobs"] for e in events if e["type"] == "response.output_text.delta"), [])
    assert got == content[:len(got)] and len(got) >= len(content) - 2
    forced = s.post("/v1/completions", prompt="x", max_tokens=9, logprobs=1, choices=["the end"])
    forced = forced["choices"][0]
    assert forced["text"] == "the end" and 0.0 in forced["logprobs"]["token_logprobs"]
    for more, code in (({"logprobs": -1}, "integer_below_min_value"), ({"logprobs": 101},
                       "integer_above_max_value"), ({"logprobs": "x"}, "invalid_type"),
                       ({"logprobs": 1, "beam_width": 2}, "unsupported_parameter")):
        refused(s, "/v1/completions", code, prompt="x", **more)


def test_prompts_tell_their_log_probabilities(s):
    def ask(prompt, most=0, **more):
        return s.post("/v1/completions", prompt=prompt, max_tokens=most, temperature=0, echo=True, logprobs=3,
                      ignore_eos=True, **more)["choices"]

    prompt = "Once upon a time, in winter"
    ids = s.post("/tokenize", content=prompt, add_special=True)["tokens"]
    first = ask(prompt)[0]
    lists = first["logprobs"]
    assert first["text"] == prompt == "".join(lists["tokens"]) and ask(ids)[0] == first
    assert lists["token_logprobs"][0] is lists["top_logprobs"][0] is None
    assert all(len(v) == len(ids) for v in lists.values())
    for k in range(1, len(ids), 5):
        forced = s.post("/v1/completions", prompt=ids[:k], max_tokens=1, logprobs=3, temperature=0,
                        logit_bias={str(ids[k]): 1000})["choices"][0]["logprobs"]
        assert forced["tokens"][0] == lists["tokens"][k]
        assert abs(forced["token_logprobs"][0] - lists["token_logprobs"][k]) < 1e-4
        for text, p in forced["top_logprobs"][0].items():
            assert abs(lists["top_logprobs"][k][text] - p) < 1e-4
    # With an answer after it, several choices, several prompts, in a stream, next to others.
    plain = s.post("/v1/completions", prompt=prompt, max_tokens=6, temperature=0, logprobs=3, ignore_eos=True)
    plain = plain["choices"][0]
    for both in ask([prompt, prompt], 6, n=2):
        assert both["text"] == prompt + plain["text"]
        assert both["logprobs"]["token_logprobs"] == lists["token_logprobs"] + \
            plain["logprobs"]["token_logprobs"]
        assert both["logprobs"]["text_offset"][len(ids)] == len(prompt)
    data = chunks_of(s, "/v1/completions", prompt=prompt, max_tokens=6, temperature=0, echo=True, logprobs=3,
                     ignore_eos=True)
    told = [c["choices"][0]["logprobs"] for c in data if c["choices"][0]["logprobs"]]
    got = sum((lists["token_logprobs"] for lists in told), [])
    assert got == both["logprobs"]["token_logprobs"]
    assert "".join(c["choices"][0]["text"] for c in data) == both["text"]
    long = "abcdefgh " * 60
    alone = ask(long)[0]
    answer = s.complete("Somebody", 60)
    calls = [lambda: ask(long)[0] == alone, lambda: s.complete("Somebody", 60) == answer] * 4
    assert all(together(calls))
    assert ask(ids[:1])[0]["logprobs"]["token_logprobs"] == [None]
    s.idle()


def test_prompt_log_probabilities_have_vllms_form(s):
    prompt = "Once upon a time, in winter"
    asked = {"prompt": prompt, "max_tokens": 3, "temperature": 0, "ignore_eos": True}
    ids = s.post("/tokenize", content=prompt, add_special=True)["tokens"]
    echoed = s.post("/v1/completions", **asked, echo=True, logprobs=1)["choices"][0]["logprobs"]
    plain = s.post("/v1/completions", **asked)["choices"][0]
    assert "prompt_logprobs" not in plain
    got = s.post("/v1/completions", **asked, prompt_logprobs=3)["choices"][0]
    lists = got["prompt_logprobs"]
    assert got["text"] == plain["text"] and got["logprobs"] is None
    assert lists[0] is None and len(lists) == len(ids)
    among = 0
    for i, (token, entry) in enumerate(zip(ids[1:], lists[1:]), 1):
        own = entry[str(token)]
        assert list(entry)[0] == str(token) and len(entry) == (3 if own["rank"] <= 3 else 4), entry
        assert abs(own["logprob"] - echoed["token_logprobs"][i]) < 1e-5
        assert own["decoded_token"] == echoed["tokens"][i]
        others = sorted((v["rank"], -v["logprob"]) for v in entry.values())
        assert [r for r, _ in others][:3] == [1, 2, 3] and others == sorted(others, key=lambda x: x[1])
        among += own["rank"] > 3
    assert among > 0                                    # the model is random
    # Together with echo, each has its own number; several answers and prompts; other APIs.
    both = s.post("/v1/completions", **asked, echo=True, logprobs=1, prompt_logprobs=3)["choices"][0]
    assert both["prompt_logprobs"] == lists and both["logprobs"] == echoed
    few = s.post("/v1/completions", **{**asked, "prompt": [ids, ids[:4]]}, n=2, prompt_logprobs=0)["choices"]
    none = [None] + [{str(t): e[str(t)]} for t, e in zip(ids[1:], lists[1:])]
    assert [c["prompt_logprobs"] for c in few] == [none, none, none[:4], none[:4]]
    assert s.post("/generate", **asked, prompt_logprobs=3)["choices"][0]["prompt_logprobs"] == lists
    assert s.post("/completion", prompt=ids, n_predict=1, prompt_logprobs=3)["prompt_logprobs"] == lists
    chat = {"messages": CHAT, "max_tokens": 2, "temperature": 0}
    answer = s.post("/v1/chat/completions", **chat, prompt_logprobs=1, n=2)
    rendered = s.post("/apply-template", messages=CHAT)["prompt"]
    told = answer["prompt_logprobs"]
    assert told[0] is None and len(told) == answer["usage"]["prompt_tokens"]
    assert "".join(list(e.values())[0]["decoded_token"] for e in told[1:]) in rendered
    plain = s.post("/v1/chat/completions", **chat)
    assert plain["choices"][0]["message"] == answer["choices"][0]["message"] and \
        "prompt_logprobs" not in plain
    for more, code in (({"stream": True}, "unsupported_parameter"), ({"beam_width": 2},
                       "unsupported_parameter"), ({"prompt_logprobs": -1}, "integer_below_min_value"),
                       ({"prompt_logprobs": 101}, "integer_above_max_value"),
                       ({"prompt_logprobs": "x"}, "invalid_type")):
        refused(s, "/v1/completions", code, prompt="x", **{"prompt_logprobs": 1, **more})
    s.idle()


def test_suffix_is_for_models_that_know_its_marks(s):
    refused(s, "/v1/completions", "unsupported_parameter", prompt="x", suffix="y")
    refused(s, "/v1/completions", "invalid_type", prompt="x", suffix=1)
    s.post("/v1/completions", prompt="x", suffix="", max_tokens=1)
    t = Server(s.program, model_path(s, "qwen2.5-coder-0.5b-q4_k_m"), "--quiet", "-c", "1024")
    before, after = "def add(a, b):\n    return ", "\n\nprint(add(1, 2))\n"
    got = t.post("/v1/completions", prompt=before, suffix=after, max_tokens=6, temperature=0)
    same = t.post("/v1/completions", prompt=f"<|fim_prefix|>{before}<|fim_suffix|>{after}<|fim_middle|>",
                  max_tokens=6, temperature=0)
    assert got["choices"][0]["text"] == same["choices"][0]["text"] and got["usage"]["prompt_tokens"] == \
        same["usage"]["prompt_tokens"]
    assert "a + b" in got["choices"][0]["text"], got
    refused(t, "/v1/completions", "invalid_value", prompt=[1, 2], suffix="y")
    t.end()


def test_biases_and_banned_texts(s):
    for bias in ({"97": 100}, [[97, 100]], {"97": 60, "98": 30}):
        assert s.complete("Once", 5, logit_bias=bias) == "aaaaa"
    for bias in ([[97, False], [98, 60]], {"97": -100, "98": 60}):
        assert s.complete("Once", 5, logit_bias=bias) == "bbbbb"
    text = s.complete("Once", 12, logit_bias={"97": 60, "98": 30}, bad_words=["aaa"])
    assert text == "aabaabaabaab", text
    for bias in ({"x": 1}, {"1": "x"}, [[1]], {"-1": 1}, {"100000": 1}, 3, {"": 1}):
        got, _, answer = s.ask("POST", "/v1/completions", {"prompt": "x", "logit_bias": bias})
        assert got == 400 and answer["error"]["param"] == "logit_bias", answer
    refused(s, "/v1/completions", "array_above_max_length", prompt="x",
            logit_bias={str(i): 1 for i in range(5000)})


def test_the_best_of_some(s):
    asked = {"prompt": "Once", "max_tokens": 8, "temperature": 1.5, "seed": 7, "ignore_eos": True}
    all_of = s.post("/v1/completions", **asked, n=6, logprobs=0)["choices"]
    means = [sum(c["logprobs"]["token_logprobs"]) / 8 for c in all_of]
    best = s.post("/v1/completions", **asked, n=2, best_of=6)
    order = sorted(sorted(range(6), key=lambda i: -means[i])[:2])
    assert [c["text"] for c in best["choices"]] == [all_of[i]["text"] for i in order]
    assert [c["index"] for c in best["choices"]] == [0, 1] and best["usage"]["completion_tokens"] == 48
    refused(s, "/v1/completions", prompt="x", n=3, best_of=2)
    refused(s, "/v1/completions", prompt="x", best_of=2, stream=True)


SAMPLING = {
    "typical_p": 0.5, "top_n_sigma": 1.5, "repeat_penalty": 1.3, "repeat_last_n": -1, "dry_multiplier": 0.8,
    "dry_base": 2, "dry_allowed_length": 2, "dry_penalty_last_n": -1, "dry_sequence_breakers": ["\n"],
    "xtc_probability": 0.5, "xtc_threshold": 0.05, "dynatemp_range": 0.5, "dynatemp_exponent": 2,
    "mirostat": 2, "mirostat_tau": 3, "mirostat_eta": 0.2, "min_p": 0.1, "top_k": 3, "min_tokens": 5,
}


def test_samplers_run_in_the_order_of_the_request(s):
    def text(**more):
        asked = {"prompt": "Once", "max_tokens": 24, "temperature": 1, "ignore_eos": True, "seed": 7}
        return s.post("/v1/completions", **{**asked, **more})["choices"][0]["text"]

    greedy, hot = s.complete("Once", 24), text()
    assert hot != greedy
    assert text(top_k=1) == text(top_k=1, samplers=["top_k", "temperature"]) == greedy
    assert text(top_k=1, samplers="kt") == text(top_k=1, samplers="top_k") == greedy
    for order in ("t", ["temperature", "top_p"], "ept"):                # what is not named is off
        assert text(top_k=1, samplers=order) == hot, order
    for nothing in ([], "", None):
        assert text(top_k=1, samplers=nothing) == greedy
    assert text(temperature=0.3, samplers=["top_p"], top_p=1) == hot    # the temperature, too
    assert s.complete("Once", 24, samplers=["penalties", "temperature"], logit_bias={"97": 100}) == "a" * 24
    # Before and after a temperature, top-p keeps other tokens.
    texts = {order: text(top_p=0.6, temperature=3, samplers=order, max_tokens=60) for order in ("tp", "pt")}
    assert texts["tp"] != texts["pt"] and texts["tp"] == text(top_p=0.6, temperature=3, max_tokens=60)
    for value, ignored in ((["infill", "top_k", "adaptive_p"], "samplers.infill, samplers.adaptive_p"),
                           ("ki", "samplers.i")):
        status, headers, got = s.ask("POST", "/v1/completions", {
            "prompt": "Once", "max_tokens": 24, "top_k": 1, "ignore_eos": True, "samplers": value})
        assert status == 200 and headers.get("x-qsf-ignored") == ignored, headers
        assert got["choices"][0]["text"] == greedy
    refused(s, "/v1/completions", "invalid_type", prompt="x", samplers=[1])
    refused(s, "/v1/completions", "invalid_type", prompt="x", samplers={"a": 1})
    refused(s, "/v1/completions", "array_above_max_length", prompt="x", samplers="k" * 24)


def test_samplers_have_llama_servers_names(s):
    asked = {"prompt": "Once", "max_tokens": 20, "temperature": 1.2, "seed": 11}
    plain = s.post("/v1/completions", **asked)["choices"][0]["text"]
    changed = 0
    for name, value in SAMPLING.items():
        more = {name: value}
        if name.startswith("dry_"):
            more["dry_multiplier"] = 0.8
        if name.startswith("mirostat"):
            more["mirostat"] = 2
        changed += s.post("/v1/completions", **{**asked, **more})["choices"][0]["text"] != plain
        for wrong in ("x", [1], {"a": 1}, 1e12):
            got, _, answer = s.ask("POST", "/v1/completions", {**asked, name: wrong})
            assert got == 400 and answer["error"]["param"] == name, (name, wrong, answer)
    assert changed > 8, changed
    assert s.post("/v1/chat/completions", messages=CHAT, max_tokens=4, **SAMPLING)
    chatty = {"prompt": "Once", "max_tokens": 30, "logit_bias": {str(299): 50}}
    ends = [s.post("/v1/completions", **{**chatty, "min_tokens": n})["usage"]["completion_tokens"]
            for n in (0, 9)]
    assert ends[0] < 2 and ends[1] >= 9, ends


if __name__ == "__main__":
    run(__doc__, globals())
