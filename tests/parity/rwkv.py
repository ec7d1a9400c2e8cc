"""RWKV-7: random models for make_tiny.py, and its layers for reference.py.
SPDX-License-Identifier: MIT
"""
import numpy as np
from gguf import GGMLQuantizationType as Q

F = np.float32
# what its names stand for elsewhere, and kinds of QSF files
ARWKV = {"time_mix_receptance": "ssm_in", "time_mix_output": "ssm_out", "time_mix_w0": "ssm_dt.bias",
         "time_mix_w1": "ssm_x", "time_mix_w2": "ssm_dt", "time_mix_r_k": "ssm_d", "time_mix_ln": "ssm_norm"}
RENAMED = {"arwkv7": ARWKV, "rwkv7": {**ARWKV, "attn_norm_2": "ffn_norm", "channel_mix_key": "ffn_up",
                                      "channel_mix_value": "ffn_down"}}
KINDS = {79: "time_mix_lerp_fused.weight", 80: "time_mix_key.weight", 81: "time_mix_value.weight",
         82: "time_mix_a1.weight", 83: "time_mix_a2.weight", 84: "time_mix_a0.weight",
         85: "time_mix_v1.weight", 86: "time_mix_v2.weight", 87: "time_mix_v0.weight",
         88: "time_mix_g1.weight", 89: "time_mix_g2.weight", 102: "time_mix_k_k.weight",
         103: "time_mix_k_a.weight", 104: "ssm_norm.bias", 105: "channel_mix_lerp_k.weight"}

# ---- random models ----

def sizes(head, decay, rate, first, gate):
    return {"wkv.head_size": head, "attention.decay_lora_rank": decay, "attention.iclr_lora_rank": rate,
            "attention.value_residual_mix_lora_rank": first, "attention.gate_lora_rank": gate}

def models(small):
    """llama.cpp has heads of 64 only."""
    plain = dict(small, arch="rwkv7", n_embd=128, n_ff=140, n_layers=3, kinds="rrr", norm="layer",
                 norm_bias=True, token_norm=True, gated=False, ffn_norm="attn_norm_2",
                 kv=sizes(64, 20, 12, 9, 24))
    yield "rwkv7", plain
    yield "rwkv7-heads", dict(plain, n_embd=72, judge="reference", kv=sizes(18, 5, 3, 2, 7))
    yield "rwkv7-q8_0", dict(plain, n_embd=192, n_ff=256, n_layers=2, kinds="rr", type=Q.Q8_0, one=True,
                             kv=sizes(64, 32, 32, 32, 64))
    others = dict(small, arch="arwkv7", n_embd=128, n_ff=140, n_layers=3, kinds="rrr")
    yield "arwkv7", dict(others, kv={**sizes(64, 20, 12, 9, 0), "token_shift_count": 1})
    yield "arwkv7-gate", dict(others, mix_norm=True, one=True,
                              kv={**sizes(64, 20, 12, 9, 24), "token_shift_count": 1})

def mixer(writer, b):
    m, kv, e = writer.m, writer.m["kv"], writer.m["n_embd"]
    decay, rate, first, gate = (kv[f"attention.{k}_lora_rank"]
                                for k in ("decay", "iclr", "value_residual_mix", "gate"))
    n = 6 if gate else 5
    writer.w.add_tensor(b + "time_mix_lerp_fused.weight",
                        writer.rng.uniform(n * e, 0, 1).astype(np.float32).reshape(n, 1, 1, e))
    pairs = [("w", decay, -1.0), ("a", rate, 0.0), ("v", first if b != "blk.0." else rate, 0.0)]
    for name, rank, mean in pairs + [("g", gate, None)] * bool(gate):
        if mean is not None: writer.vector(b + f"time_mix_{name}0.weight", e, mean, 0.8)
        writer.matrix(b + f"time_mix_{name}1.weight", rank, e, 1.3, kind=Q.F32)
        writer.matrix(b + f"time_mix_{name}2.weight", e, rank, 2.0, kind=Q.F32)
    for name, gain in (("key", 1.2), ("value", 1.3), ("receptance", 1.2), ("output", 1.5)):
        writer.matrix(b + f"time_mix_{name}.weight", e, e, gain)
    writer.vector(b + "time_mix_k_k.weight", e, 0.8, 0.2)
    writer.vector(b + "time_mix_k_a.weight", e, 1.0, 0.2)
    writer.vector(b + "time_mix_r_k.weight", e, 0, 0.2)
    if m["arch"] == "rwkv7" or m.get("mix_norm"):
        writer.vector(b + "time_mix_ln.weight", e, 1.0, 0.3)
        writer.vector(b + "time_mix_ln.bias", e, 0, 0.2)

def ffn(writer, b):
    e, ff = writer.m["n_embd"], writer.m["n_ff"]
    writer.vector(b + "channel_mix_lerp_k.weight", e, 0.5, 0.3)
    writer.matrix(b + "channel_mix_key.weight", ff, e, 1.3)
    writer.matrix(b + "channel_mix_value.weight", e, ff, 1.5)

# ---- what they compute ----

def far(x):
    return np.concatenate([np.zeros_like(x[:1]), x[:-1]]) - x

def shifted(model, x, b):
    return x + far(x) * model.w(b + "channel_mix_lerp_k.weight")

def sigmoid(t):
    return 1 / (1 + np.exp(-np.asarray(t, np.float64)))

def recurrence(r, w, k, v, out, rate):
    """arXiv 2503.14456, section 4; of each position [heads][columns of a head]."""
    sums, y = np.zeros(v.shape[1:] + v.shape[2:]), np.zeros(v.shape)
    for i in range(len(v)):                             # [heads][values][keys]
        taken = np.einsum("hvk,hk->hv", sums, -out[i])
        sums = (sums * w[i][:, None, :] + v[i][..., None] * k[i][:, None, :]
                + taken[..., None] * (out[i] * rate[i])[:, None, :])
        y[i] = np.einsum("hvk,hk->hv", sums, r[i])
    return y

def mix(model, x, b):
    """In 64 bits after the matrices."""
    n, e, head = len(x), x.shape[1], model.get("wkv.head_size")
    def vector(name, need=True): return model.w(b + name, need)
    def pair(t, name, between=lambda t: t):
        return between(t @ vector(name + "1.weight").T) @ vector(name + "2.weight").T
    shares = vector("time_mix_lerp_fused.weight").reshape(-1, e)
    r, w, k, v, a, *g = (x + far(x) * share for share in shares)
    low = np.tanh(w @ vector("ssm_x.weight").T)
    w = np.exp(-0.606531 * sigmoid(low @ vector("ssm_dt.weight").T + vector("ssm_dt.bias")))
    r, k, given = model.linear(r, b + "ssm_in"), model.linear(k, b + "time_mix_key"), v
    v = model.linear(v, b + "time_mix_value")
    if b == "blk.0.": model.first_values = v
    else: v = v + (model.first_values - v) * sigmoid(pair(given, "time_mix_v") + vector("time_mix_v0.weight"))
    a = sigmoid(pair(a, "time_mix_a") + vector("time_mix_a0.weight"))
    out = (k * vector("time_mix_k_k.weight")).reshape(n, -1, head).astype(np.float64)
    out = out / np.maximum(np.sqrt((out * out).sum(-1, keepdims=True)), 1e-12)
    k = k * (1 + (a - 1) * vector("time_mix_k_a.weight"))
    r, w, k, v, a = (t.reshape(n, -1, head).astype(np.float64) for t in (r, w, k, v, a))
    y = recurrence(r, w, k, v, out, a)
    norm = vector("ssm_norm.weight", False)
    if norm is not None:
        y = y - y.mean(-1, keepdims=True)
        y = y / np.sqrt((y * y).mean(-1, keepdims=True) + 64e-5)
        y = y * norm.reshape(-1, head) + vector("ssm_norm.bias").reshape(-1, head)
    y = y + v * (r * k * vector("ssm_d").reshape(-1, head)).sum(-1, keepdims=True)
    y = y.reshape(n, e).astype(F)
    if g: y = (y * pair(g[0], "time_mix_g", sigmoid)).astype(F)
    return model.linear(y, b + "ssm_out")
