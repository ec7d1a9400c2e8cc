#!/usr/bin/env python3
"""Drafts by layers for multi-token prediction: random models whose logits numpy computes as well, and models
whose drafts are mostly right; drafts change no token.  The same for EAGLE 3 heads, whose numbers llama.cpp
computes as well, and for drafts by a draft model.
SPDX-License-Identifier: MIT

    mtp_test.py MTP_LINES QSF_RUN QSF_CONVERT
"""
import json, pathlib, subprocess, sys, tempfile, zlib
import numpy as np
from safetensors.numpy import load_file, save_file

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "parity"), str(ROOT / "tools")]
import eagle_models                                         # noqa: E402
import make_hf_pair                                         # noqa: E402
import make_tiny                                            # noqa: E402
import reference                                            # noqa: E402
from mtp_models import Writer, families, write              # noqa: E402

lines, program, convert = sys.argv[1:]
F = np.float32
PROMPT = [95, 192, 157, 249, 266, 13, 234, 273, 169]


class Model(reference.Model):
    """The published code's arithmetic: the layer's input is eh_proj of the token's embedding and of the
    hidden state after the final norm, each normed; what its own norm gives is the next row's hidden state."""
    def chain(self, ids, n):
        x = self.w("token_embd.weight")[np.asarray(ids)]
        for i in range(self.n_layers): x = self.layer(x, i, 512)
        states = self.norm(x, "output_norm")
        head = "output" if "output.weight" in self.tensors else "token_embd"
        logits = [self.linear(states[-1:], head)[0]]
        b = f"blk.{self.n_layers}.nextn."
        def has(name): return f"{b}{name}.weight" in self.tensors
        embd = self.w((b + "embed_tokens" if has("embed_tokens") else "token_embd") + ".weight")
        head = b + "shared_head_head" if has("shared_head_head") else head
        tokens = list(ids[1:])
        for _ in range(n):
            tokens.append(int(np.argmax(logits[-1])))
            both = self.norm(embd[tokens], b + "enorm"), self.norm(states, b + "hnorm")
            both = np.concatenate(both, axis=1)
            y = self.layer(self.linear(both, b + "eh_proj"), self.n_layers, 512)
            y = self.norm(y, b + "shared_head_norm" if has("shared_head_norm") else "output_norm")
            logits.append(self.linear(y[-1:], head)[0])
            states = np.concatenate([states, y[-1:]])
        return logits


def run(*args, code=0, tool=None, says=""):
    r = subprocess.run([tool or lines, *map(str, args)], capture_output=True, text=True,
                       stdin=subprocess.DEVNULL)
    assert r.returncode == code and says in r.stderr, (args, r.stdout[-500:], r.stderr[-2000:])
    return r.stdout.split("\n")[:-1] if not code else r.stderr


def joined(ids): return ",".join(map(str, ids))


def check_logits(path):
    got = [np.array(line.split(","), F) for line in run(path, "logits", 3, joined(PROMPT))]
    for i, (mine, numpy) in enumerate(zip(got, Model(path).chain(PROMPT, 3))):
        far = np.abs(mine - numpy).max() / np.abs(numpy).max()
        assert far < 1e-4, (path.name, i, far)
    assert len(got) == 4


def check_turns(path, least):
    """Several prompts in one sequence: the second continues, the third differs early, the fourth is long."""
    prompts = [joined(PROMPT), joined(PROMPT + [1, 2, 3]), joined(PROMPT[:4] + [9, 8]), joined(range(90))]
    right = 0
    for temperature, seed in ((0, 1), (0.9, 2), (0.9, 3)):
        plain = run(path, "turns", 0, temperature, seed, 24, "all", *prompts)[:-1]
        for how, draft in (("turns", 1), ("turns", 3), ("turns", 7), ("measured", 7)):
            *tokens, count = run(path, how, draft, temperature, seed, 24, "all", *prompts)
            assert tokens == plain, (path, how, draft, temperature, seed)
            if how == "turns": right += int(count.split()[1])
    assert right >= least, (path, right)


def check_together(path):
    """Sequences that share batches, and one that answers before the others begin: tokens and guesses are
    those of each alone.  After a shared prefix, too, unless another token follows it there."""
    prompts = [joined(x) for x in (PROMPT * 3, [7, 8, 9], PROMPT * 3, range(60))]
    other = joined(PROMPT * 2 + [1, 2, 3])
    assert run(path, "together", 3, 0, 1, 24, "all", prompts[0], other)[1] == run(
        path, "turns", 0, 0, 1, 24, "all", other)[0]
    for draft, temperature, seed in (1, 0, 1), (3, 0.9, 2), (7, 0, 1):
        how = draft, temperature, seed, 24, "all"
        alone = [run(path, "turns", *how, p) for p in prompts]
        counts = [sum(int(count.split()[i]) for _, count in alone) % 2 ** 64 for i in range(3)]
        *tokens, count = run(path, "together", *how, *prompts)
        assert tokens == [a for a, _ in alone], (path, how, tokens, alone)
        assert [int(x) for x in count.split()] == counts, (path, how, count, counts)


def check_streams(path):
    """One read of the weights serves several tokens."""
    plain = run(path, "turns", 0, 0, 1, 24, "all", joined(PROMPT))[:-1]
    *tokens, count = run(path, "turns", 3, 0, 1, 24, "least", joined(PROMPT))
    assert tokens == plain and int(count.split()[1]) > 4, (tokens, plain, count)


def check_program(path, *draft):
    """qsf-run says how many were right; --draft N fixes the number, --draft 0 turns them off."""
    base = [path, "--raw", "-p", "abcd efg", "-n", "40", "--ignore-eos", "--temp", "0", "-v", "--f32"]
    def answer(*more):
        r = subprocess.run([program, *map(str, base), *more], capture_output=True, text=True)
        assert r.returncode == 0, r.stderr
        return r.stdout, r.stderr
    plain = answer("--draft", "0")[0]
    for more in [], ["--draft", "3"], ["--draft", "0"]:
        out, err = answer(*(draft or ["--draft-mtp"]), *more)
        assert out == plain, (more, out, plain)
        if more: assert ("draft tokens accepted" in err) == (more[1] != "0"), err
    texts = []
    # the layer knows nothing of what a session loads
    for more in [], [*(draft or ["--draft-mtp"]), "--draft", "3"]:
        saved = path.with_suffix(f".session{len(more)}")
        texts.append([answer("--session", str(saved), *more)[0] for _ in range(2)])
        if more: assert "draft tokens accepted" in answer("--session", str(saved), *more)[1]
    assert texts[0] == texts[1], texts


def check_errors(folder):
    def refused(path, text, code=3):
        err = run(path, "-p", "x", "-n", "1", "--draft-mtp", tool=program, code=code)
        assert text in err, err
        if code == 3: run(path, "--raw", "-p", "x", "-n", "1", "--draft", "0", tool=program)
    class Odd(Writer):
        def matrix(self, name, rows, cols, *more, **also):
            if name.endswith("eh_proj.weight"):
                if self.m["odd"] == "none": return
                cols -= 8 * (self.m["odd"] == "narrow")
            super().matrix(name, rows, cols, *more, **also)
        def vector(self, name, n, *more, **also):
            if name.endswith("nextn.hnorm.weight") and self.m["odd"] == "short": n -= 4
            if not (name.endswith("nextn.enorm.weight") and self.m["odd"] == "bare"):
                super().vector(name, n, *more, **also)
    for odd, text in (("none", "made without their weights"), ("narrow", "is 72 x 136, expected 72 x 144"),
                      ("short", "expected 1 x 72"), ("bare", 'nextn.enorm.weight" (1 x 72) is missing')):
        path = folder / f"odd-{odd}.gguf"
        Odd(path, {**make_tiny.models()["glm4moe"], "odd": odd}).write()
        refused(path, text)
    refused(write(folder, "qwen3"), "has no layer for multi-token prediction")
    m = make_tiny.models()["bailingmoe2"]
    other = write(folder, "bailingmoe2", nextn=1, kv={**m["kv"], "nextn_predict_layers": 1})
    refused(other, "layers for multi-token prediction of bailingmoe2")
    cut = folder / "cut.gguf"
    cut.write_bytes(write(folder, "glm4moe", seed=7).read_bytes()[:-20000])
    assert "cut.gguf: tensor" in run(cut, "-p", "x", "--draft-mtp", tool=program, code=3)
    path = write(folder, "glm4moe", seed=8)
    run("-q", "--progressive", path, folder / "as.qsf", tool=convert)
    refused(folder / "as.qsf", "as.qsf: has no layer for multi-token prediction")
    assert "give one of them" in run(path, "-p", "x", "--draft-mtp", "--draft-model", path, tool=program,
                                     code=2)
    assert "layer for multi-token prediction needs at least" in run(
        path, "-p", "x", "--draft-mtp", "--ram-budget", 1, tool=program, code=4)


def check_qsf(path):
    """A converted layer guesses what the file's own does, and the model runs as without it."""
    base = [joined(PROMPT), joined(PROMPT + [1, 2, 3])]
    qsf, again, bare = [path.with_suffix(end) for end in (".qsf", ".2.qsf", ".bare.qsf")]
    run("-q", "--quant-type", "f16", "--equalize", "off", path, qsf, tool=convert)
    run("-q", "--quant-type", "f16", "--equalize", "off", qsf, again, tool=convert)
    run("-q", "--quant-type", "f16", "--equalize", "off", "--progressive", path, bare, tool=convert,
        says="its layer for multi-token prediction is left out: calibration, ")
    assert qsf.read_bytes() == again.read_bytes() and qsf.read_bytes()[4] == 5
    assert bare.read_bytes()[4] == 4
    for of in path, qsf:
        plain = run(of, "turns", 0, 0, 1, 24, "all", *base)[:-1]
        *tokens, count = run(of, "turns", 3, 0, 1, 24, "all", *base)
        assert tokens == plain and int(count.split()[1]) > 8, (of, count)
    assert plain == run(bare, "turns", 0, 0, 1, 24, "all", *base)[:-1]
    mine, file = [[np.array(line.split(","), F) for line in run(of, "logits", 3, joined(PROMPT))]
                  for of in (qsf, path)]
    for i, (a, b) in enumerate(zip(mine, file)):
        assert np.abs(a - b).max() / np.abs(b).max() < 0.02, (path.name, i)
    small = path.with_suffix(".4bit.qsf")
    run("-q", path, small, tool=convert)
    plain = run(small, "turns", 0, 0, 1, 24, "least", *base)[:-1]
    *tokens, count = run(small, "turns", 3, 0, 1, 24, "least", *base)
    assert tokens == plain and int(count.split()[1]) > 4, (small, count)


def check_qsf_refused(work):
    """Another version's number, and a layer whose own embedding and head the file would lose."""
    own, damaged = work / "own.qsf", work / "damaged.qsf"
    run("-q", write(work, "glm4moe", own=True), own, tool=convert,
        says="is left out, because it has an embedding or a head of its own")
    assert own.read_bytes()[4] == 3
    data = bytearray((work / "glm4moe-near.qsf").read_bytes())
    data[4] = 3
    for end in 96, 116: data[end:end + 4] = zlib.crc32(data[:end]).to_bytes(4, "little")
    damaged.write_bytes(data)
    err = run(damaged, "-p", "x", tool=program, code=3)
    assert "format version 3 with 4 layers, but the description has a layer for multi-token" in err, err


def check_directory(work, name, more):
    """The layer of a Hugging Face directory, and that of a GGUF file with the same weights."""
    found = []
    for source in make_hf_pair.make(work, name, **more):
        qsf = source.with_suffix(".from.qsf")
        run("-q", "--quant-type", "f16", "--equalize", "off", source, qsf, tool=convert)
        found.append([np.array(line.split(","), F) for line in run(qsf, "logits", 3, joined(PROMPT))])
        assert qsf.read_bytes()[4] == 5
    for a, b in zip(*found):                # norms that are stored less 1 differ in their last bits
        assert np.abs(a - b).max() / np.abs(b).max() < 1e-5, (name, np.abs(a - b).max())


def check_directory_refused(work):
    """Some conversions take the model alone; its own embedding cannot be taken; without a tensor it is
    broken."""
    folder = make_hf_pair.make(work / "odd", "glm4moe")[0]
    bare = folder / "bare.qsf"
    run("-q", "--quant-type", "f16", "--progressive", folder, bare, tool=convert,
        says="its layer for multi-token prediction is left out: calibration, ")
    assert bare.read_bytes()[4] == 4
    weights = load_file(folder / "model.safetensors")
    at = f"model.layers.{make_tiny.models()['glm4moe']['n_layers']}."
    for change, code, says in (("embed_tokens.weight", 0, "because it has an embedding or a head of its own"),
                               ("enorm.weight", 3, f"tensor {at}enorm.weight is missing")):
        odd = {k: v + (k == at + change) for k, v in weights.items() if code == 0 or k != at + change}
        save_file(odd, folder / "model.safetensors", metadata={"format": "pt"})
        run("-q", "--quant-type", "f16", folder, folder / "of.qsf", tool=convert, code=code, says=says)


def check_draft_model(work):
    """A draft model with the model's own weights is always right: whatever its sequences went through, its
    logits are those of the model.  One with state goes back; one with other weights is wrong."""
    llama, hybrid = [write(work, name, near=0.003) for name in ("llama", "qwen35")]
    for big, small, least in (llama, llama, 150), (hybrid, hybrid, 150), (llama, hybrid, 0):
        both = f"{big}:{small}"
        check_turns(both, least)
        check_together(both)
        if big != small: continue
        for how, prompts in ("turns", [PROMPT, PROMPT + [1, 2, 3], PROMPT[:4] + [9, 8], range(90)]), \
                            ("together", [PROMPT * 3, [7, 8, 9], PROMPT * 3 + [4, 5], range(60)]):
            made, right, _ = run(both, how, 3, 0, 1, 24, "all", *map(joined, prompts))[-1].split()
            assert made == right and int(made) > 20, (both, how, made, right)
    check_streams(f"{llama}:{llama}")
    assert int(run(f"{llama}:{llama}", "faults", joined(PROMPT))[-1]) > 40
    err = run(llama, "-p", "x", "--draft-model", write(work, "gemma3"), tool=program, code=2)
    assert "same vocabulary" in err, err


def eagle(work, name, model, target, **more):
    return f"{target}:{eagle_models.write(work, name, target, make_tiny.models()[model], **more)}"


def check_eagle(work):
    """Random heads compute what llama.cpp does and change no token."""
    golden = json.loads((ROOT / "golden" / "eagle.json").read_text())
    for name, model, more in eagle_models.heads():
        both, want = eagle(work, name, model, write(work, model), **more), golden[name]
        got = [np.array(line.split(","), F) for line in run(both, "logits", 3, joined(PROMPT))]
        for i, (x, numbers) in enumerate(zip(got, want["numbers"], strict=True)):
            far = np.abs(x[::eagle_models.STEP] - numbers).max() / want["size"][i]
            assert far < 2e-4 and np.argmax(x) == want["best"][i], (name, i, far)
        if name in ("own", "state"): check_turns(both, 0)
        if name == "norms": check_together(both)


def check_eagle_right(work):
    """Heads that know what comes next, for models in memory, streamed, and converted."""
    for model, more, least in (("llama", dict(normed=True, n_draft=290), 100), ("llama", {}, 20),
                               ("qwen35", dict(normed=True), 100)):
        target = write(work, model, near=0.003)
        both = eagle(work, "right", model, target, knows=True, **more)
        check_turns(both, least)
        if model == "qwen35": check_together(both)
        check_streams(both)
    assert int(run(both, "faults", joined(PROMPT))[-1]) > 40
    head = both.split(":")[1]
    small = target.with_suffix(".4bit.qsf")
    run("-q", target, small, tool=convert)
    check_streams(f"{small}:{head}")
    check_program(target, "--draft-model", head)


def check_eagle_refused(work):
    target, m = write(work, "llama"), make_tiny.models()["llama"]
    ids = np.arange(300, dtype=np.int64)
    def refused(text, code=3, target=target, **more):
        head = eagle_models.write(work, "odd", target, m, **more)
        err = run(target, "-p", "x", "-n", "1", "--draft-model", head, tool=program, code=code)
        assert text in err and "eagle-odd.gguf: " in err, err
    refused("entry 7 is 300, but the vocabulary", wrong={"d2t": np.where(ids == 7, 300, ids)}, n_draft=300)
    refused("entry 0 is -1, but", wrong={"d2t": ids - 1}, n_draft=300)
    refused("a 64-bit number for each of the 300 rows", wrong={"d2t": ids[:5]}, n_draft=300)
    refused("has type F64", wrong={"d2t": ids.astype(np.float64)}, n_draft=300)
    refused('without "output.weight"', wrong={"output.weight": None})
    refused('"fc.weight" is 64 x 128, expected 64 x 192', wrong={"fc.weight": np.zeros((64, 128), F)})
    refused('"blk.0.attn_norm_2.weight" (1 x 64) is missing', wrong={"blk.0.attn_norm_2.weight": None})
    refused('"fc.weight" (64 x 192) is missing', wrong={"fc.weight": None})
    refused("attn_k.weight", wrong={"blk.0.attn_k.weight": np.zeros((32, 64), F)})
    refused("names 3 layers of its model", keys={"target_layers": [0, 1]})
    refused("names 3 layers of its model", keys={"target_layers": None})
    refused("entry 1 of key", keys={"target_layers": [0, -1, 2]})
    refused('"eagle3.target_hidden_size" is missing', keys={"target_hidden_size": None})
    refused('"eagle3.target_hidden_size" is 0', keys={"target_hidden_size": 0})
    refused("an EAGLE 3 head of 2 layers", keys={"block_count": 2})
    refused("goes into layer 3", 2, taps=[0, 1, 3])
    refused("its 100 tokens are not the 300", 2, wrong={"output.weight": np.zeros((100, 64), F)})
    refused("its embedding has 90 tokens", 2, wrong={"token_embd.weight": np.zeros((90, 64), F)}, own=True)
    refused("takes rows of 72 columns", 2, keys={"target_hidden_size": 72},
            wrong={"fc.weight": np.zeros((64, 216), F)})
    refused("96 columns, so the 64", 2, n_embd=96)
    refused("token 256 differs", 2, target=write(work, "llama-f16-tied-spm"))
    head = eagle_models.write(work, "alone", target, m)
    for tool, args in (program, ("-p", "x")), (convert, ("-q", head, work / "of.qsf")):
        err = run(*([head] if tool == program else []), *args, tool=tool, code=2 if tool == program else 3)
        assert "an EAGLE 3 head, which drafts for another model" in err, err


def check_library(path, other):
    text = run(path, "errors", other)
    want = "was not opened with its layer", "only layers", "open the same file twice"
    assert len(text) == 4 and all(w in line for w, line in zip(want, text)) and text[3] == "1", text
    assert int(run(path, "faults", joined(PROMPT))[-1]) > 40


with tempfile.TemporaryDirectory() as work:
    work = pathlib.Path(work)
    for name, more in families():
        path = write(work, name, **more)
        check_logits(path)
        check_turns(path, 0)
        check_together(path)
        near = write(work, name, near=0.003, **more)
        check_logits(near)
        check_turns(near, 30)
        check_qsf(near)
        check_directory(work / "hf", name, more)
        if name == "qwen35moe": check_directory(work / "hf", "qwen35moe-stacked", more)
    check_directory_refused(work)
    check_logits(write(work, "glm4moe", own=True))
    for name in "glm4moe", "qwen35-nextn":
        check_logits(write(work, name, own=True, tied=True))
        check_streams(work / f"{name}-near.gguf")
    check_qsf_refused(work)
    check_draft_model(work)
    check_eagle(work)
    check_eagle_right(work)
    check_eagle_refused(work)
    check_library(work / "glm4moe.gguf", work / "qwen35-nextn.gguf")
    check_program(work / "glm4moe-near.gguf")
    check_errors(work)
print("ok")
