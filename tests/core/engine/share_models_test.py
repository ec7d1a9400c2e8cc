#!/usr/bin/env python3
"""Every tiny model in two to four shares of each layer gives the logits of the whole within 1e-4.
SPDX-License-Identifier: MIT

    share_models_test.py PART_MODELS WORK [EVERY]

EVERY: 3 takes every third model.
With floats for activations, keys and values: codes make large differences of small ones, here and there.
A model whose layers cannot be cut must be one of WHOLE; one that is too narrow for its type, of NARROW. WIDE
are wide enough for all types of blocks.
"""
import pathlib, re, subprocess, sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "parity"))
import make_tiny
from make_tiny import Q

# What a layer has that needs all of it.
WHOLE = {
    "ALiBi": r"baichuan-alibi|bloom|mpt",
    "experts": r"bailingmoe2|ernie4_5-moe|glm4moe|gpt-oss.*|granitemoe|mixtral.*|olmoe|qwen[23]moe"
               r"|smallthinker|phimoe.*|gemma4-moe.*|.*moe-fused.*",
    "a norm inside of its parts": r"bitnet.*",
    "latent attention": r"deepseek2.*|minicpm3.*",
    "a mixer other than attention": r"falcon-h1.*|falcon-mamba|granitehybrid.*|lfm2.*|mamba.*|nemotron_h.*"
                                    r"|qwen35.*|qwen3next.*|a?rwkv7.*|plamo2.*",
    "what Gemma 3n has": r"gemma3n|gemma4.*",
    "a norm of all heads together": r"olmo2.*",
}
# Heads, or feed-forwards, that blocks of 64 or 256 columns leave no place to cut.
NARROW = re.compile(r"(?!wide).*-(q\d_.*|iq\d_.*|tq\d_.*|mxfp4|nvfp4|q1_0|q2_0)(-\d+)?$")
WIDE = ("llama", "gemma3", "qwen2")


def wide(work):
    """Models whose types of blocks can be cut into four."""
    for arch in WIDE:
        for kind in (Q.Q8_0, Q.Q4_1, Q.Q4_K, Q.Q6_K, Q.IQ4_NL):
            kv = 1 if arch == "gemma3" else 4
            m = dict(make_tiny.models()[arch], n_layers=2, n_embd=256, n_heads=16, n_kv_heads=kv, head_dim=64,
                     n_ff=1280, type=kind)
            path = work / f"wide-{arch}-{kind.name.lower()}.gguf"
            if not path.exists(): make_tiny.Writer(path, m).write()
            yield path


def main():
    program, work = sys.argv[1], pathlib.Path(sys.argv[2])
    work.mkdir(parents=True, exist_ok=True)
    wides = [p.stem for p in wide(work)]
    every = int(sys.argv[3]) if sys.argv[3:] else 1
    names = [*list(make_tiny.models())[::every], *wides]
    paths = [str(work / f"{n}.gguf") if n in wides else str(make_tiny.make(work, n)[0]) for n in names]
    done = subprocess.run([program, "--shares", *paths], capture_output=True, text=True)
    bad, ok = [], set()
    for line in done.stdout.splitlines():
        word, path, rest = (line.split(maxsplit=2) + [""])[:3]
        name = pathlib.Path(path.rstrip(":")).stem
        why = re.search(r"layer \d+ has (.*); use ranges", rest)
        too_many = re.search(r"cannot be cut into [34] shares", rest) and (name, 2) in ok
        if word == "ok": ok.add((name, int(rest.split()[1])))
        elif word != "refused" or not (re.fullmatch(WHOLE.get(why[1], "-"), name) if why else
                                       NARROW.fullmatch(name) or too_many): bad.append(line)
    missing = [n for n in wides if any((n, k) not in ok for k in (2, 3, 4))]
    whole = "|".join(WHOLE.values())
    missing += [n for n in names if not (re.fullmatch(whole, n) or NARROW.fullmatch(n)) and (n, 2) not in ok]
    if done.returncode or bad or missing:
        sys.exit("\n".join([*bad, f"missing: {missing}", done.stderr]))
    print(f"{len(ok)} cuts of {len({n for n, _ in ok})} models")


if __name__ == "__main__":
    main()
