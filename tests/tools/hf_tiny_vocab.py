"""Tokenizers as Hugging Face directories have them, and the vocabulary that a reader should make of each.
SPDX-License-Identifier: MIT

Part of make_hf_tiny.py.
"""
import json, struct

MARK = "\u2581"

# ---- tokenizers ----------------------------------------------------------------------------------

def byte_letters():
    keep = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    out, n = {b: chr(b) for b in keep}, 0
    for b in range(256):
        if b not in out: out[b] = chr(256 + n); n += 1
    return [out[b] for b in range(256)]

REGEX_LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| "
                r"?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
REGEX_QWEN2 = REGEX_LLAMA3.replace("{1,3}", "")
PRE = {
    "gpt-2": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
    "smollm": {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True},
               {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}]},
    "llama-bpe": {"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"Regex": REGEX_LLAMA3},
                                                         "behavior": "Isolated", "invert": False},
                  {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
                   "use_regex": False}]},
    "qwen2": {"type": "Sequence", "pretokenizers":
              [{"type": "Split", "pattern": {"Regex": REGEX_QWEN2}, "behavior": "Isolated", "invert": False},
              {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}]},
}
N_VOCAB = 272

def bpe(pre, pair_arrays=False, nfc=False, template=False):
    """Files, and the vocabulary they mean."""
    letters = byte_letters()
    base = letters + ["he", "ll", "hell", "hello", letters[32] + "hello"]
    merges = [("h", "e"), ("l", "l"), ("he", "ll"), ("hell", "o"), (letters[32], "hello")]
    added = [("<|begin|>", True), ("<|im_end|>", False), ("<|endoftext|>", True), (MARK + "x y", False)]
    ids = {t: i for i, t in enumerate(base)}
    post = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<|begin|>", "type_id": 0}},
                                                     {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [], "special_tokens": {}} if template else None
    tok = {"version": "1.0", "added_tokens": [{"id": len(base) + i, "content": t, "special": s,
                                               "normalized": False} for i, (t, s) in enumerate(added)],
           "normalizer": {"type": "NFC"} if nfc else None, "pre_tokenizer": PRE[pre], "post_processor": post,
           "decoder": {"type": "ByteLevel"},
           "model": {"type": "BPE", "vocab": ids,
                     "merges": [list(m) for m in merges] if pair_arrays else [" ".join(m) for m in merges],
                     "unk_token": None, "byte_fallback": False, "ignore_merges": pre == "llama-bpe"}}
    config = {"bos_token": {"content": "<|begin|>"}, "eos_token": "<|endoftext|>", "add_bos_token": False,
              "chat_template": [{"name": "tool_use", "template": "T"},
                                {"name": "default", "template": "{{ messages }}"}]}
    tokens = [(1, t.encode()) for t in base] + [(3, b"<|begin|>"), (3, b"<|im_end|>"), (3, b"<|endoftext|>"),
                                                (4, b" x y")]
    tokens += [(5, f"[PAD{i}]".encode()) for i in range(len(tokens), N_VOCAB)]
    n = len(base)
    want = {"kind": 1, "pre": pre, "tokens": tokens, "merges": [(ids[a], ids[b]) for a, b in merges],
            "template": "{{ messages }}", "more": [("tool_use", "T")],
            "special": {"bos": n, "eos": n + 2, "eot": n + 1, "unk": -1, "pad": -1, "add_bos": int(template),
                        "add_eos": 0, "add_space_prefix": 0, "nfc": int(nfc)}}
    return {"tokenizer.json": json.dumps(tok), "tokenizer_config.json": json.dumps(config)}, want

def varint(n):
    out = b""
    while n > 127: out += bytes([n & 127 | 128]); n >>= 7
    return out + bytes([n])
def field(n, data): return varint(n << 3 | 2) + varint(len(data)) + data

def spm_pieces():
    pieces = [("<unk>", 0.0, 2), ("<s>", 0.0, 3), ("</s>", 0.0, 3)] + [(f"<0x{b:02X}>", 0.0, 6)
                                                                       for b in range(256)]
    return pieces + [(MARK, -1.0, 1), ("h", -2.0, 1), ("e", -3.0, 1), ("he", -0.5, 1),
                     (MARK + "he", -0.25, 1), (MARK + MARK, 0.0, 4)]

def spm_model(trainer=2, prefix=1, more=b""):
    """tokenizer.model, and the vocabulary it means."""
    pieces = spm_pieces()
    out = b"".join(field(1, field(1, t.encode()) + b"\x15" + struct.pack("<f", s)
                         + (b"\x18" + varint(k) if k != 1 else b"")) for t, s, k in pieces)
    out += field(2, more + b"\x18" + varint(trainer) + varint(40 << 3) + varint(0) + varint(41 << 3)
                 + varint(1) + varint(42 << 3) + varint(2)
                 + varint(43 << 3) + b"\xff" * 9 + b"\x01")
    out += field(3, field(1, b"identity") + b"\x18" + varint(prefix))
    tokens = [(k, t.encode() if k != 4 else t.replace(MARK, " ").encode()) for t, s, k in pieces]
    scores = [s if k != 4 else -1000.0 for t, s, k in pieces]
    for i in range(len(tokens), N_VOCAB): tokens.append((5, f"[PAD{i}]".encode())); scores.append(-10000.0)
    want = {"kind": 2 if trainer == 2 else 4, "pre": "default", "tokens": tokens, "scores": scores,
            "merges": [], "template": None,
            "special": {"bos": 1, "eos": 2, "eot": -1, "unk": 0, "pad": -1, "add_bos": 1, "add_eos": 0,
                        "add_space_prefix": prefix, "nfc": 0}}
    return {"tokenizer.model": out}, want

def spm_json():
    """The same vocabulary as merges in a tokenizer.json."""
    base = [t for t, s, k in spm_pieces()][:-1]
    ids = {t: i for i, t in enumerate(base)}
    merges = [("h", "e"), (MARK, "he")]
    tok = {"added_tokens":
           [{"id": i, "content": t, "special": True} for i, t in enumerate(("<unk>", "<s>", "</s>"))],
           "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": MARK},
                                                              {"type": "Replace", "pattern": {"String": " "},
                                                               "content": MARK}]},
           "pre_tokenizer": None, "decoder": {"type": "Sequence", "decoders": []},
           "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>"}},
                              {"Sequence": {"id": "A"}}], "pair": []},
           "model": {"type": "BPE", "vocab": ids, "merges": [" ".join(m) for m in merges],
                     "unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True}}
    score = {t: -1000.0 for t in ("<unk>", "<s>", "</s>")} | {"he": -1.0, MARK + "he": -2.0}
    tokens = [(3 if i < 3 else 6 if i < 259 else 1, t.encode()) for i, t in enumerate(base)]
    scores = [score.get(t, -4.0) for t in base]
    for i in range(len(tokens), N_VOCAB): tokens.append((5, f"[PAD{i}]".encode())); scores.append(-10000.0)
    want = {"kind": 2, "pre": "default", "tokens": tokens, "scores": scores, "merges": [],
            "template": "J {{ x }}", "more": [("rag", "R {{ x }}")],
            "special": {"bos": 1, "eos": 2, "eot": -1, "unk": 0, "pad": -1, "add_bos": 1, "add_eos": 0,
                        "add_space_prefix": 1, "nfc": 0}}
    return {"tokenizer.json": json.dumps(tok),
            "tokenizer_config.json": json.dumps(
                {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}),
            "chat_template.jinja": "J {{ x }}", "additional_chat_templates/rag.jinja": "R {{ x }}"}, want
