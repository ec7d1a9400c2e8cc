#!/usr/bin/env python3
"""Startup options of qsf-serve: errors before a model is loaded, templates, reasoning, sampling.
SPDX-License-Identifier: MIT

    serve_start_test.py QSF_SERVE
"""
import argparse, os, pathlib, socket, subprocess, sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
import make_script
from serve_server import CHAT, TESTS, WORK, Server

FOLDER = pathlib.Path(WORK.name)
SCRIPT, THINKS, TINY = FOLDER / "script.gguf", FOLDER / "thinks.gguf", FOLDER / "llama.gguf"
TEMPLATE = """{% for m in messages %}<|im_start|>{{ m.role }}
{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content }}<|im_end|>
{% endfor %}{% if word is defined %}{{ word }}
{% endif %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


def refused(program, model, *args, code, says, **env):
    r = subprocess.run([program, str(model), *map(str, args)], capture_output=True, text=True, timeout=60,
                       env={**os.environ, **env})
    assert r.returncode == code, (args, r)
    for text in says:
        assert text in r.stderr, (args, text, r.stderr)
    assert "is loaded" not in r.stderr, r.stderr                # before the model is loaded


def errors_are_said_before_the_model_is_loaded(program):
    none = FOLDER / "there-is-no-such-model.gguf"
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        for model in (SCRIPT, none):                            # the model is not even opened
            refused(program, model, "--port", port, code=5,
                    says=[f"127.0.0.1:{port}", "in use", "--port N"])
    refused(program, none, "--port", "0", code=5, says=["no-such-model"])
    for key in (["--api-key", ""], ["--api-key="]):
        refused(program, none, "--port", "0", *key, code=2, says=["--api-key", "empty"])
    folder = FOLDER / "folder.new"
    folder.mkdir(exist_ok=True)
    for path in (FOLDER / "no" / "such" / "folder" / "kept", FOLDER / "folder"):
        refused(program, none, "--port", "0", "--cache-file", path, code=5, says=["--cache-file", str(path)])
    name = "a-template-whose-name-is-longer-than-forty-characters"
    refused(program, SCRIPT, "--port", "0", "--chat-template", name, code=2, says=[f'"{name}"', "chatml, "])
    refused(program, none, "--port", "0", "--chat-template", FOLDER / "none.jinja", code=2,
            says=["none.jinja", "neither a name nor a file"])
    plain = FOLDER / "plain.txt"
    plain.write_text("no template")
    refused(program, none, "--port", "0", "--chat-template", plain, code=2, says=["plain.txt", "{{ ... }}"])
    refused(program, none, "--port", "0", "--chat-template-kwargs", "[1]", code=2, says=["JSON object"])
    refused(program, none, "--port", "0", "--cache-file", FOLDER / "kept", "--early-exit", "0.95", code=2,
            says=["--early-exit"])


def the_file_of_kept_sequences_is_left_alone(program):
    kept = FOLDER / "kept"
    s = Server(program, str(SCRIPT), "--chat-template", "chatml", "--cache-file", str(kept))
    assert not kept.exists() and not (FOLDER / "kept.new").exists()
    s.end()
    assert kept.exists()


def templates_come_from_files(program):
    file = FOLDER / "own.jinja"
    file.write_text(TEMPLATE)
    for how in (["--chat-template", str(file)], ["--chat-template-file", str(file)],
                ["--chat-template", TEMPLATE]):
        s = Server(program, str(SCRIPT), *how, "--chat-template-kwargs", '{"word": "W"}')
        plain = s.post("/apply-template", messages=CHAT)["prompt"]
        own = s.post("/apply-template", messages=CHAT, chat_template_kwargs={"word": "mine"})["prompt"]
        answer = s.post("/v1/chat/completions", messages=CHAT, temperature=0)
        s.end()
        assert plain == "<|im_start|>user\nSay hi<|im_end|>\nW\n<|im_start|>assistant\n", plain
        assert own == plain.replace("W", "mine"), own
        assert answer["choices"][0]["message"]["content"] == "Hello you.", answer
        assert answer["choices"][0]["finish_reason"] == "stop", answer


def reasoning_ends_with_its_budget(program):
    for budget, thought in ((-1, "one two three "), (2, "one two "), (0, "")):
        s = Server(program, str(THINKS), "--chat-template", TEMPLATE, "--reasoning-budget", str(budget))
        answer = s.post("/v1/chat/completions", messages=CHAT, temperature=0, max_tokens=24)
        m = answer["choices"][0]["message"]
        prompt = s.post("/apply-template", messages=CHAT)["prompt"]
        if budget == -1:                                        # a request's own budget
            for more in ({"reasoning_budget": 1}, {"thinking_budget_tokens": 1},
                         {"thinking": {"type": "enabled", "budget_tokens": 1}}):
                own = s.post("/v1/chat/completions", messages=CHAT, temperature=0, max_tokens=24, **more)
                assert own["choices"][0]["message"]["reasoning_content"].strip() == "one", (more, own)
        s.end()
        assert (m.get("reasoning_content") or "").strip() == thought.strip(), m
        assert "</think>" not in (m["content"] or ""), m
        if budget == -1:
            assert m["content"] == "Yes.", m
        assert prompt.startswith("<|im_start|>user"), prompt


def ignore_eos_goes_on_in_a_chat(program):
    s = Server(program, str(SCRIPT), "--chat-template", "chatml")
    a = s.post("/v1/chat/completions", messages=CHAT, temperature=0, max_tokens=12, ignore_eos=True)
    s.end()
    assert a["choices"][0]["finish_reason"] == "length" and a["usage"]["completion_tokens"] == 12, a


def s_text(program, body, *options):
    s = Server(program, str(TINY), *options)
    text = s.post("/v1/completions", **body)["choices"][0]["text"]
    s.end()
    return text


def options_of_sampling_are_the_defaults_of_requests(program):
    s = Server(program, str(TINY), "--temp", "0", "--repeat-penalty", "1.5", "--dry-multiplier", "0.5")
    body = {"prompt": "once upon", "max_tokens": 20, "ignore_eos": True}
    texts = {s.post("/v1/completions", **body)["choices"][0]["text"] for _ in range(2)}
    texts.add(s.post("/v1/completions", temperature=0, repeat_penalty=1.5, dry_multiplier=0.5,
                     **body)["choices"][0]["text"])
    free = s.post("/v1/completions", repeat_penalty=1, dry_multiplier=0, **body)["choices"][0]["text"]
    s.end()
    assert len(texts) == 1 and free not in texts, (texts, free)
    body["temperature"] = 0
    free = s_text(program, body)
    token = free[:1]
    banned = s_text(program, body, "--ban", token)
    assert token in free and token not in banned, (free, banned)
    only = s_text(program, body, "--logit-bias", "65=100", "--temp", "0")
    assert only == "A" * 20, only
    for value in ("no-such-token-anywhere=1", "65", "65=x"):
        refused(program, TINY, "--port", "0", "--logit-bias", value, code=2,
                says=["--logit-bias takes TOKEN=F"])
    s = Server(program, str(TINY), "--seed", "7", "--temp", "1.5")
    body = {"prompt": "once upon", "max_tokens": 16}
    one, two = (s.post("/v1/completions", **body)["choices"][0]["text"] for _ in range(2))
    several = [c["text"] for c in s.post("/v1/completions", n=4, **body)["choices"]]
    other = s.post("/v1/completions", seed=8, **body)["choices"][0]["text"]
    s.end()
    assert one == two and one != other and len(set(several)) > 1, (one, two, other, several)


def main():
    args = argparse.ArgumentParser()
    args.add_argument("program")
    program = args.parse_args().program
    make_script.write(SCRIPT, ["Hello", " you."])
    make_script.write(THINKS, ["<think>", "one ", "two ", "three ", "</think>", "Yes."])
    subprocess.run([sys.executable, TESTS / "parity" / "make_tiny.py", WORK.name, "llama"], check=True,
                   stdout=subprocess.DEVNULL)
    for test in (errors_are_said_before_the_model_is_loaded, the_file_of_kept_sequences_is_left_alone,
                 templates_come_from_files, reasoning_ends_with_its_budget, ignore_eos_goes_on_in_a_chat,
                 options_of_sampling_are_the_defaults_of_requests):
        test(program)
        print(test.__name__, "ok", flush=True)


main()
