#!/usr/bin/env python3
"""Compares the chat templates with what Jinja makes of the models' own, over conversations of every shape.
SPDX-License-Identifier: MIT

    chat_exact.py CHAT_TEST [--models DIR] [--shared DIR] [--templates DIR]... [--verbose]

A template that is called known must give Jinja's text for every conversation that it does not itself refuse;
one that is called unknown is only counted, except where it has to be known. Near misses (VARIANTS) are made
of known templates by small changes: each has to be unknown or right."""
import argparse, os, pathlib, random, subprocess, sys, tempfile
from jinja_env import template

here = pathlib.Path(__file__).parent
U, A, S = "user", "assistant", "system"
CONVERSATIONS = {
    "one turn": [(U, "Hi")], "system": [(S, "Be brief."), (U, "Hi")],
    "turns": [(U, "Hi"), (A, "Hello!"), (U, "And?")],
    "system and turns": [(S, "Be brief."), (U, "Hi"), (A, "Hello!"), (U, "And?"), (A, "Fine."), (U, "Bye")],
    "answered": [(S, "Be brief."), (U, "Hi"), (A, "Hello!")],
    "two answers": [(U, "1"), (A, "2"), (U, "3"), (A, "4")],
    "blanks": [(S, " \n S \n"), (U, "  u\n\n"), (A, "\n\n a "), (U, "\tv ")],
    "empty": [(S, ""), (U, "Hi"), (A, ""), (U, "")],
    "lines": [(S, "a\nb"), (U, "c\n\nd 'e' \"f\" \\n {{ g }}"), (A, "é一"), (U, "😀")],
    "late system": [(U, "Hi"), (A, "Hello!"), (S, "Be brief."), (U, "And?")],
    "two systems": [(S, "a"), (S, "b"), (U, "Hi")],
    "two users": [(U, "Hi"), (U, "there")], "answer first": [(A, "Welcome"), (U, "Hi")],
    "system alone": [(S, "Be brief.")],
    "thinking": [(U, "Hi"), (A, "<think>\nhm\n</think>\n\nHello!"), (U, "And?")],
    "thought last": [(U, "Hi"), (A, "<think>\nhm\n</think>\n\nHello!\n")],
    "thinking twice": [(S, "s"), (U, "Hi"), (A, "a</think>b</think>c"), (U, "And?"), (A, "\n</think>\nd")],
    "switches": [(S, "/no_think"), (U, "Hi /think")],
}
PIECES = ["", "", "a", "Hi there", " ", "\n", "\n\n", "\t", "é一", "\u00a0", "😀", "<think>", "</think>",
          "<think>\nhm\n</think>\n\n", "<|im_end|>", "[/INST]", "</s>", "/think", "/no_think",
          "<tool_response>x</tool_response>", "{{ x }}", "'", '"', "\\n", "user", "system\n", "<end_of_turn>",
          "You are a helpful assistant."]


def more_conversations():
    """Random ones, the same in each run: half of them in turns, as people talk, the others in any order."""
    r = random.Random(5)
    for i in range(60):
        roles = [(S,) * r.randint(0, 1) + ((U, A) * 9)[:r.randint(1, 15)],
                 r.choices([U, A, S], k=r.randint(1, 7))][i % 2]
        yield f"random {i}", [(role, "".join(r.choices(PIECES, k=r.randint(0, 4)))) for role in roles]


CONVERSATIONS |= dict(more_conversations())
TEXT_TOKENS = {"deepseek": ("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"), "gemma": ("<bos>", "<eos>"),
               "llama3": ("<|begin_of_text|>", "<|eot_id|>"),
               "phi3": ("<s>", "<|endoftext|>"), "command-r": ("<BOS_TOKEN>", "<|END_OF_TURN_TOKEN|>")}
REQUIRED = {"Qwen2.5-7B": "chatml", "Qwen3-0.6B": "chatml", "Qwen3-Coder": "chatml",
            "google-gemma-2": "gemma", "meta-llama-Llama-3.1-8B": "llama3", "Llama-3.2-3B": "llama3",
            "Phi-3.5": "phi3", "Mistral-Nemo": "mistral", "R1-Distill-Qwen": "deepseek", "smollm2": "chatml",
            "qwen2": "chatml", "phi-3": "phi3", "gpt-oss": "unknown",
            "Hermes-2-Pro": "unknown", "granite": "unknown", "SmolLM3": "unknown", "gemma3": "gemma"}
# Small ones, in the manner of the families.
OWN = {
    "chatml": "{% for message in messages %}"
              "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}"
              "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
    "chatml with a system message":
        "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
        "{{ '<|im_start|>system\nYou help.<|im_end|>\n' }}{% endif %}"
        "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}"
        "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
    "zephyr": "{% for message in messages %}\n{% if message['role'] == 'user' %}\n"
              "{{ '<|user|>\n' + message['content'] + eos_token }}\n"
              "{% elif message['role'] == 'system' %}\n"
              "{{ '<|system|>\n' + message['content'] + eos_token }}\n"
              "{% elif message['role'] == 'assistant' %}\n"
              "{{ '<|assistant|>\n' + message['content'] + eos_token }}\n{% endif %}\n"
              "{% if loop.last and add_generation_prompt %}\n{{ '<|assistant|>' }}\n{% endif %}\n"
              "{% endfor %}",
    "llama2": "{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}"
              "{% set system_message = messages[0]['content'] %}{% else %}"
              "{% set loop_messages = messages %}{% set system_message = false %}{% endif %}"
              "{% for message in loop_messages %}"
              "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
              "{{ raise_exception('Roles must alternate') }}{% endif %}"
              "{% if loop.index0 == 0 and system_message != false %}"
              "{% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' "
              "+ message['content'] %}"
              "{% else %}{% set content = message['content'] %}{% endif %}"
              "{% if message['role'] == 'user' %}"
              "{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}"
              "{% elif message['role'] == 'assistant' %}{{ ' ' + content.strip() + ' ' + eos_token }}"
              "{% endif %}{% endfor %}",
    "llama3": "{% for message in messages %}"
              "{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' "
              "+ message['content'] | trim + '<|eot_id|>' %}"
              "{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}"
              "{% endfor %}{% if add_generation_prompt %}"
              "{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}",
    "mistral": "{{ bos_token }}{% for message in messages %}"
               "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
               "{{ raise_exception('Roles must alternate') }}{% endif %}{% if message['role'] == 'user' %}"
               "{{ '[INST] ' + message['content'] + ' [/INST]' }}{% elif message['role'] == 'assistant' %}"
               "{{ message['content'] + eos_token }}{% else %}"
               "{{ raise_exception('Only user and assistant') }}{% endif %}{% endfor %}",
    "phi3": "{% for message in messages %}{% if message['role'] == 'system' %}"
            "{{'<|system|>\n' + message['content'] + '<|end|>\n'}}{% elif message['role'] == 'user' %}"
            "{{'<|user|>\n' + message['content'] + '<|end|>\n'}}{% elif message['role'] == 'assistant' %}"
            "{{'<|assistant|>\n' + message['content'] + '<|end|>\n'}}{% endif %}{% endfor %}"
            "{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% else %}{{ eos_token }}{% endif %}",
    "gemma": "{{ bos_token }}{% if messages[0]['role'] == 'system' %}"
             "{{ raise_exception('No system role') }}{% endif %}{% for message in messages %}"
             "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
             "{{ raise_exception('Roles must alternate') }}{% endif %}"
             "{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}"
             "{% set role = message['role'] %}{% endif %}"
             "{{ '<start_of_turn>' + role + '\n' + message['content'] | trim + '<end_of_turn>\n' }}"
             "{% endfor %}{% if add_generation_prompt %}{{'<start_of_turn>model\n'}}{% endif %}",
    "command-r": "{{ bos_token }}{% if messages[0]['role'] == 'system' %}"
                 "{% set loop_messages = messages[1:] %}{% set system_message = messages[0]['content'] %}"
                 "{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}"
                 "{% if system_message != false %}"
                 "{{ '<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>' + system_message "
                 "+ '<|END_OF_TURN_TOKEN|>' }}"
                 "{% endif %}{% for message in loop_messages %}"
                 "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
                 "{{ raise_exception('Roles must alternate') }}{% endif %}"
                 "{% set content = message['content'] %}{% if message['role'] == 'user' %}"
                 "{{ '<|START_OF_TURN_TOKEN|><|USER_TOKEN|>' + content.strip() "
                 "+ '<|END_OF_TURN_TOKEN|>' }}"
                 "{% elif message['role'] == 'assistant' %}"
                 "{{ '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>' + content.strip() "
                 "+ '<|END_OF_TURN_TOKEN|>' }}"
                 "{% endif %}{% endfor %}{% if add_generation_prompt %}"
                 "{{ '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>' }}{% endif %}",
    "deepseek": "{{ bos_token }}{% for message in messages %}{% if message['role'] == 'user' %}"
                "{{ 'User: ' + message['content'] + '\n\n' }}{% elif message['role'] == 'assistant' %}"
                "{{ 'Assistant: ' + message['content'] + eos_token }}"
                "{% elif message['role'] == 'system' %}{{ message['content'] + '\n\n' }}{% endif %}"
                "{% endfor %}{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}",
}
COMMENT = "{# {{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}} #}"
TURN = "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}"
# What is changed in one of OWN: (its name, [old, new]...); every one is unknown, or written as
# Jinja writes it.
VARIANTS = [
    # the five of the kind that strangers found
    ("chatml",
     ("{% for",
      "{{ '<|im_start|>system\n' + 'You help.' + '<|im_end|>\n' if messages[0].role != 'system' }}{% for")), (
          "chatml", ("'<|im_end|>' + '\n'", "'<|im_end|>'")),
    ("chatml", ("<|im_start|>assistant", "<|im_start|>Assistant")),
    ("chatml", (TURN, "{% if message['role'] != 'system' %}" + TURN + "{% endif %}")),
    ("chatml", (TURN, COMMENT + "{{ message.content }}")),
    # default system messages of other forms
    ("chatml",
     ("{% for",
      "{% if messages[0]['role'] != 'system' %}<|im_start|>system\nYou help.<|im_end|>\n{% endif %}{% for")),
    ("chatml",
     ("{% for",
      "{% set s = 'You help.' %}{% if messages[0]['role'] != 'system' %}{{ '<|im_start|>system\n' + s + "
      "'<|im_end|>\n' }}{% endif %}{% for")),
    ("chatml", ("{% for", "{{ '<|im_start|>system\nAlways.<|im_end|>\n' }}{% for")),
    ("chatml with a system message", ("You help.", "")),
    ("chatml with a system message", ("You help.", "You\\n\\'help\\'.")),
    ("chatml with a system message", ("You help.", "\\x59ou help.")),
    ("chatml with a system message", ("!= 'system'", "== 'system'")),
    ("chatml with a system message", ("loop.first and ", "")),
    ("chatml with a system message", ("loop.first", "loop.last")),
    ("chatml with a system message", ("messages[0]", "messages[-1]")),
    # white space and line ends
    ("chatml", ("'<|im_end|>' + '\n'", "'<|im_end|>\n\n'")),
    ("chatml", ("message['role'] + '\n'", "message['role'] + ' '")),
    ("chatml", ("message['content']", "message['content'] | trim")),
    ("chatml", ("message['content']", "message['content'].rstrip()")),
    ("chatml", ("'<|im_start|>assistant\n'", "'<|im_start|>assistant'")),
    ("chatml", ("{% endfor %}", "\n{% endfor %}")),
    ("chatml", ("{% endfor %}", " {% endfor %}")), ("chatml", ("{% for", "\n\n{% for")),
    ("chatml", ("{% endif %}", "{% endif %}\n")), ("chatml", ("{% endif %}", "{% endif %}\n\n")),
    ("chatml", ("{{'<|im_start|>'", "{{- '<|im_start|>'"),
     ("{% for message in messages %}", "{% for message in messages %}  ")), ("chatml", ("+ '\n'}}", "}}\n")),
    # roles
    ("chatml", ("message['role'] +", "message['role'] | upper +")),
    ("chatml", ("message['role'] +", "('human' if message['role'] == 'user' else message['role']) +")),
    ("chatml", (TURN, "{% if message['role'] == 'user' %}" + TURN + "{% endif %}")),
    ("chatml", (TURN, "{% if message['role'] in ['user', 'assistant', 'system'] %}" + TURN + "{% endif %}")),
    ("chatml", ("{% for message in messages %}", "{% for message in messages[1:] %}")),
    ("chatml", ("{% for message in messages %}", "{% for message in messages if message['content'] %}")),
    ("chatml", ("{% for message in messages %}", "{% for message in messages | reverse %}")),
    ("chatml", ("{% for message in messages %}", "{% for message in messages[-4:] %}")),
    ("chatml",
     (TURN, "{% if message['role'] == 'system' %}{{ raise_exception('no system') }}{% endif %}" + TURN)),
    ("chatml",
     (TURN, "{% if message['role'] == 'system' and not loop.first %}{{ raise_exception('no') }}{% endif %}"
      + TURN)),
    # when the answer begins
    ("chatml", ("{% if add_generation_prompt %}", "{% if not add_generation_prompt %}")),
    ("chatml", ("{% if add_generation_prompt %}", "{% if true %}")),
    ("chatml", ("{% if add_generation_prompt %}",
                "{% if add_generation_prompt and messages[-1]['role'] == 'user' %}")),
    ("chatml", ("assistant\n' }}", "assistant\n<think>\n' }}")),
    ("chatml", ("assistant\n' }}", "assistant\n<think>\n\n</think>\n\n' }}")),
    ("chatml", ("{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}", "")),
    ("chatml", ("{% endif %}", "{% endif %}{# add_generation_prompt #}"),
     ("{% if add_generation_prompt %}", "{% if 1 %}")),
    # around it
    ("chatml", ("{% for", "{{ bos_token }}{% for")),
    ("chatml", ("{% for", "{{ bos_token }}{{ bos_token }}{% for")),
    ("chatml", ("{% for", "{{ eos_token }}{% for")), ("chatml", ("+ '\n'}}", "+ eos_token + '\n'}}")),
    ("chatml", ("{% for", "{{ strftime_now('%Y') }}{% for")),
    ("chatml", ("{% for", "{% if tools is none %}{% set a = 1 %}{% endif %}{% for")),
    ("chatml", ("{% for", "{% if tools is defined %}x{% endif %}{% for")),
    ("chatml", ("message['content'] +", "message['content'].split('</think>')[-1] +")),
    ("chatml", ("message['content'] +", "message['content'] | replace('\n', ' ') +")),
    ("chatml", ("message['content'] +", "(message['content'] if loop.index < 6 else '...') +")),
    ("chatml", ("message['content'] +", "message['content'][:100] +")),
    ("chatml", ("<|im_start|>", "<|im_sep|>")), ("chatml", ("<|im_end|>", "<|endoftext|>")),
    ("chatml", ("{% endfor %}", "{% endfor %}{% include 'x' %}")), ("chatml", ("{% endfor %}", "")),
    ("chatml", ("{% for", "{% macro m(x) %}{{ x }}{% endmacro %}{% for"), ("{{'<|im", "{{m('<|im"),
     ("'\n'}}", "'\n')}}")),
    # the other kinds
    ("zephyr",
     ("{% elif message['role'] == 'system' %}\n{{ '<|system|>\n' + message['content'] + eos_token }}\n",
      "")), ("zephyr", ("'<|assistant|>' }}", "'<|Assistant|>' }}")),
    ("zephyr", ("{{ '<|assistant|>' }}\n", "{{ '<|assistant|>' }}")),
    ("zephyr", ("'<|user|>\n' + message['content'] + eos_token",
                "'<|user|>\n' + message['content'] + '</s>'")),
    ("llama2", ("<<SYS>>\\n", "<<SYS>>")),
    ("llama2", ("system_message = false", "system_message = 'You help.'")),
    ("llama2", ("+ ' ' + eos_token", "+ eos_token")), ("llama2", ("bos_token + '[INST] '", "'[INST] '")),
    ("llama2", ("content.strip() + ' [/INST]'", "content + ' [/INST]'")),
    ("llama2", ("messages[1:]", "messages[2:]")),
    ("llama3", (" | trim", "")), ("llama3", ("{% if loop.index0 == 0 %}", "{% if loop.index0 < 2 %}")),
    ("llama3", ("<|end_header_id|>\n\n' + message", "<|end_header_id|>\n' + message")),
    ("llama3", ("{% for", "{{ '<|start_header_id|>system<|end_header_id|>\n\nToday.<|eot_id|>' }}{% for")),
    ("llama3", ("assistant<|end", "Assistant<|end")),
    ("llama3", ("{% if add_generation_prompt %}", "{% if messages[-1]['role'] == 'user' %}")),
    ("mistral", ("'[INST] ' +", "'[INST]' +")), ("mistral", ("' [/INST]'", "'[/INST]'")),
    ("mistral", ("{{ message['content'] + eos_token }}", "{{ ' ' + message['content'] + eos_token }}")),
    ("mistral", ("message['content'] + eos_token", "message['content'] | trim + eos_token")),
    ("mistral", ("message['content'] + eos_token", "message['content'] + eos_token + ' '")),
    ("mistral", ("{{ raise_exception('Only user and assistant') }}", "")),
    ("mistral", ("{% if message['role'] == 'user' %}", "{% if message['role'] == 'user' or 1 %}")),
    ("phi3", ("{% else %}{{ eos_token }}", "")), ("phi3", ("'<|system|>\n'", "'<|user|>\n'")),
    ("phi3", ("<|end|>\n'}}{% endif %}", "<|end|>'}}{% endif %}")),
    ("phi3", ("{{ '<|assistant|>\n' }}", "{{ '<|assistant|>' }}")),
    ("gemma", (" | trim", "")), ("gemma", ("'model'", "'assistant'")),
    ("gemma", ("{{ raise_exception('No system role') }}", "")),
    ("gemma", ("<end_of_turn>\n", "<end_of_turn>")),
    ("gemma", ("{% if messages[0]['role'] == 'system' %}", "{% if messages[0]['role'] == 'nobody' %}")),
    ("command-r", ("system_message = false", "system_message = 'You help.'")),
    ("command-r", ("content.strip() + '<|END_OF_TURN_TOKEN|>' }}{% elif",
                   "content + '<|END_OF_TURN_TOKEN|>' }}{% elif")),
    ("command-r", ("{% if add_generation_prompt %}", "{% if 1 %}")),
    ("command-r", ("+ system_message +", "+ system_message | trim +")),
    ("deepseek", ("'User: ' + message['content'] + '\n\n'", "'User: ' + message['content'] + '\n'")),
    ("deepseek", ("{{ 'Assistant:' }}", "{{ 'Assistant: ' }}")),
    ("deepseek", ("'Assistant: ' + m", "'assistant: ' + m")),
    ("deepseek", ("{{ message['content'] + '\n\n' }}", "")),
    ("deepseek", ("{{ message['content'] + '\n\n' }}", "{{ 'System: ' + message['content'] + '\n\n' }}")),
]


def variants():
    for i, (name, *changes) in enumerate(VARIANTS):
        source = OWN[name]
        for old, new in changes:
            if old not in source:
                sys.exit(f"variant {i}: {old!r} is not in {name}")
            source = source.replace(old, new)
        yield f"variant {i} of {name}", source


def render(source, messages, generate, bos, eos):
    """The text; None: the template refuses.  There is no clock, as in the core."""
    try:
        return template(source, clock=False).render(messages=[{"role": r, "content": c} for r, c in messages],
                                                    add_generation_prompt=generate,
                                                    tools=None, documents=None, bos_token=bos, eos_token=eos)
    except Exception:
        return None


def ours(o, records):
    """The kinds and texts of records: (source, bos, eos, generate, messages)."""
    with tempfile.NamedTemporaryFile(delete=False) as f:
        for source, bos, eos, generate, messages in records:
            f.write(b"".join(x.encode() + b"\0" for x in (source, bos, eos, "1" if generate else "0",
                                                          str(len(messages)), *(x for m in messages
                                                                                for x in m))))
    out = subprocess.run([o.chat_test, "--render", f.name], capture_output=True,
                         check=True).stdout.decode().split("\0")
    os.unlink(f.name)
    assert len(out) == 2 * len(records) + 1, (len(out), len(records))
    return list(zip(out[0::2], out[1::2]))


def check(o, name, source, kind):
    want = next((k for n, k in REQUIRED.items() if n in name), OWN.get(name) and name.split()[0])
    bad = [f"is {kind}, not {want}"] if want and kind != want else []
    records, expected = [], []
    bos, eos = ("<|im_start|>", "<|im_end|>") if "smollm2" in name else TEXT_TOKENS.get(kind, ("<s>", "</s>"))
    if kind != "unknown":
        for what, messages in CONVERSATIONS.items():
            for generate in (True, False):
                theirs = render(source, messages, generate, bos, eos)
                if theirs is not None:
                    records.append((source, bos, eos, generate, messages))
                    expected.append((f"{what}, generate={generate}", theirs))
        for (what, theirs), (again, text) in zip(expected, ours(o, records)):
            if again != kind or theirs not in (text, bos + text):       # the tokenizer puts bos there
                bad.append(f"{what}: {again}\n      ours   {text!r}\n      theirs {theirs!r}")
        if not records:
            bad.append("nothing was compared")
    if bad or o.verbose or not name.startswith("variant"):
        print(f"{'FAIL' if bad else 'ok  '} {name}: {kind}, {len(records)} compared"
              + (f", {len(bad)} differ" if bad else ""))
    for line in bad if o.verbose else bad[:2]:
        print("    " + line)
    return bool(bad)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("chat_test")
    p.add_argument("--models", default=os.environ.get("QSF_MODELS_DIR"))
    p.add_argument("--shared", default=os.environ.get("QSF_SHARED_DIR", str(here.parent.parent / "shared")))
    p.add_argument("--templates", action="append", default=[])
    p.add_argument("--verbose", action="store_true")
    o = p.parse_args()
    sources = dict(OWN) | dict(variants())
    own = len(sources)
    for folder in [pathlib.Path(o.shared) / "data" / "templates", *map(pathlib.Path, o.templates)]:
        for path in sorted(folder.glob("*.jinja")):
            sources[path.name] = path.read_text(encoding="utf-8")
    ggufs = sorted((pathlib.Path(o.shared) / "data" / "tokenizers").glob("*.gguf")) + (
        sorted(pathlib.Path(o.models).glob("*.gguf")) if o.models else [])
    if ggufs:
        from gguf_reader import Reader
        for path in ggufs:
            field = Reader(path).fields.get("tokenizer.chat_template")
            if field:
                sources[path.name] = field.contents()
    kinds = ours(o, [(source, "<s>", "", True, []) for source in sources.values()])
    failed = sum([check(o, name, source, kind) for (name, source), (kind, _) in zip(sources.items(), kinds)])
    unknown = sum(kind == "unknown" for name, (kind, _) in zip(sources, kinds) if name.startswith("variant"))
    skipped = len(sources) == own
    print(f"{len(sources)} templates, {len(VARIANTS)} of them variants ({unknown} unknown), {failed} failed"
          + (", the shared ones skipped" if skipped else ""))
    sys.exit(1 if failed or (skipped and os.environ.get("QSF_TEST_NO_SKIP")) else 0)


main()
