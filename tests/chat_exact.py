#!/usr/bin/env python3
"""Compares the chat templates with what Jinja makes of the models' own, over conversations of every shape.
SPDX-License-Identifier: MIT

    chat_exact.py CHAT_TEST [--models DIR] [--shared DIR] [--templates DIR]... [--verbose]

A template that is called known must give Jinja's text for every conversation that it does not itself refuse; one that is
called unknown is only counted, except where it has to be known."""
import argparse, functools, os, pathlib, subprocess, sys
import jinja2, jinja2.sandbox

here = pathlib.Path(__file__).parent
U, A, S = "user", "assistant", "system"
CONVERSATIONS = {
    "one turn": [(U, "Hi")], "system": [(S, "Be brief."), (U, "Hi")], "turns": [(U, "Hi"), (A, "Hello!"), (U, "And?")],
    "system and turns": [(S, "Be brief."), (U, "Hi"), (A, "Hello!"), (U, "And?"), (A, "Fine."), (U, "Bye")],
    "answered": [(S, "Be brief."), (U, "Hi"), (A, "Hello!")], "two answers": [(U, "1"), (A, "2"), (U, "3"), (A, "4")],
    "blanks": [(S, " \n S \n"), (U, "  u\n\n"), (A, "\n\n a "), (U, "\tv ")], "empty": [(S, ""), (U, "Hi"), (A, ""), (U, "")],
    "lines": [(S, "a\nb"), (U, "c\n\nd 'e' \"f\" \\n {{ g }}"), (A, "é一"), (U, "😀")],
    "late system": [(U, "Hi"), (A, "Hello!"), (S, "Be brief."), (U, "And?")], "two systems": [(S, "a"), (S, "b"), (U, "Hi")],
    "two users": [(U, "Hi"), (U, "there")], "answer first": [(A, "Welcome"), (U, "Hi")], "system alone": [(S, "Be brief.")],
    "thinking": [(U, "Hi"), (A, "<think>\nhm\n</think>\n\nHello!"), (U, "And?")], "thought last": [(U, "Hi"), (A, "<think>\nhm\n</think>\n\nHello!\n")],
    "thinking twice": [(S, "s"), (U, "Hi"), (A, "a</think>b</think>c"), (U, "And?"), (A, "\n</think>\nd")], "switches": [(S, "/no_think"), (U, "Hi /think")],
}
TEXT_TOKENS = {"deepseek": ("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"), "gemma": ("<bos>", "<eos>"), "llama3": ("<|begin_of_text|>", "<|eot_id|>"),
               "phi3": ("<s>", "<|endoftext|>"), "command-r": ("<BOS_TOKEN>", "<|END_OF_TURN_TOKEN|>")}
REQUIRED = {"Qwen2.5-7B": "chatml", "Qwen3-0.6B": "chatml", "google-gemma-2": "gemma", "meta-llama-Llama-3.1-8B": "llama3", "Llama-3.2-3B": "llama3", "Phi-3.5": "phi3",
            "Mistral-Nemo": "mistral", "R1-Distill-Qwen": "deepseek", "smollm2": "chatml", "qwen2": "chatml", "phi-3": "phi3", "gpt-oss": "unknown",
            "Hermes-2-Pro": "unknown", "granite": "unknown", "SmolLM3": "unknown"}
# Small ones, in the manner of the families that no file at hand stands for.
OWN = {
    "own chatml": "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
                  "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
    "own zephyr": "{% for message in messages %}\n{% if message['role'] == 'user' %}\n{{ '<|user|>\n' + message['content'] + eos_token }}\n{% elif message['role'] == 'system' %}\n"
                  "{{ '<|system|>\n' + message['content'] + eos_token }}\n{% elif message['role'] == 'assistant' %}\n{{ '<|assistant|>\n' + message['content'] + eos_token }}\n"
                  "{% endif %}\n{% if loop.last and add_generation_prompt %}\n{{ '<|assistant|>' }}\n{% endif %}\n{% endfor %}",
    "own llama2": "{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = messages[0]['content'] %}{% else %}"
                  "{% set loop_messages = messages %}{% set system_message = false %}{% endif %}{% for message in loop_messages %}"
                  "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Roles must alternate') }}{% endif %}"
                  "{% if loop.index0 == 0 and system_message != false %}{% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}"
                  "{% else %}{% set content = message['content'] %}{% endif %}{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}"
                  "{% elif message['role'] == 'assistant' %}{{ ' ' + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}",
}


def refuse(text):
    raise jinja2.TemplateError(text)


@functools.cache
def template(source):
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
    env.globals["raise_exception"] = refuse
    return env.from_string(source)


def render(source, messages, generate, bos, eos):
    try:
        text = template(source).render(messages=[{"role": r, "content": c} for r, c in messages], add_generation_prompt=generate,
                                       bos_token=bos, eos_token=eos)
    except (jinja2.TemplateError, TypeError, AttributeError):
        return None
    return text.removeprefix(bos)


def ours(o, path, messages, generate):
    args = [x for m in messages for x in m]
    p = subprocess.run([o.chat_test, "--render", path, "1" if generate else "0", *args], capture_output=True)
    kind, _, text = p.stdout.decode().partition("\n")
    return kind, text


def check(o, name, source):
    path = o.scratch / "template.jinja"
    path.write_text(source, encoding="utf-8", newline="")
    kind = ours(o, path, [(U, "Hi")], True)[0]
    want = next((k for n, k in REQUIRED.items() if n in name), None)
    bad = [f"is {kind}, not {want}"] if want and kind != want else []
    compared = 0
    if kind != "unknown":
        bos, eos = TEXT_TOKENS.get(kind, ("<s>", "</s>"))
        for what, messages in CONVERSATIONS.items():
            for generate in (True, False):
                theirs = render(source, messages, generate, bos, eos)
                if theirs is None:
                    continue
                text = ours(o, path, messages, generate)[1]
                compared += 1
                if text != theirs:
                    bad.append(f"{what}, generate={generate}:\n      ours   {text!r}\n      theirs {theirs!r}")
        if not compared:
            bad.append("nothing was compared")
    print(f"{'FAIL' if bad else 'ok  '} {name}: {kind}, {compared} compared" + (f", {len(bad)} differ" if bad else ""))
    for line in bad if o.verbose else bad[:2]:
        print("    " + line)
    return bool(bad)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("chat_test")
    p.add_argument("--models", default=os.environ.get("QSF_MODELS_DIR"))
    p.add_argument("--shared", default=os.environ.get("QSF_SHARED_DIR", str(here.parent.parent / "shared")))
    p.add_argument("--templates", action="append", default=[])
    p.add_argument("--scratch", type=pathlib.Path, default=pathlib.Path(os.environ.get("TMPDIR", "/tmp")) / f"qsf-chat-{os.getpid()}")
    p.add_argument("--verbose", action="store_true")
    o = p.parse_args()
    o.scratch.mkdir(parents=True, exist_ok=True)
    sources = dict(OWN)
    for folder in [pathlib.Path(o.shared) / "data" / "templates", *map(pathlib.Path, o.templates)]:
        for path in sorted(folder.glob("*.jinja")):
            sources[path.name] = path.read_text(encoding="utf-8")
    ggufs = sorted((pathlib.Path(o.shared) / "data" / "tokenizers").glob("*.gguf")) + (sorted(pathlib.Path(o.models).glob("*.gguf")) if o.models else [])
    if ggufs:
        from gguf_reader import Reader
        for path in ggufs:
            field = Reader(path).fields.get("tokenizer.chat_template")
            if field:
                sources[path.name] = field.contents()
    failed = sum([check(o, name, source) for name, source in sources.items()])
    skipped = len(sources) == len(OWN)
    print(f"{len(sources)} templates, {failed} failed" + (", the shared ones skipped" if skipped else ""))
    (o.scratch / "template.jinja").unlink(missing_ok=True)
    o.scratch.rmdir()
    sys.exit(1 if failed or (skipped and os.environ.get("QSF_TEST_NO_SKIP")) else 0)


main()
