"""Gemma 3n and 4 for reference.py: windowed layers with heads of their own, layers that read others' keys,
and a row of each token for each layer.  From the models' descriptions and their code in Transformers.
SPDX-License-Identifier: MIT
"""
import math
import numpy as np

from experts import sum_of_experts

F = np.float32
NAMES = {"gemma3n", "gemma4"}


def rms(x, weight, eps):
    y = x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + F(eps))
    return y if weight is None else y * weight


def of_layer(m, key, layer):
    """A number for all layers, or one for each."""
    value = m.get(key)
    return value[layer] if isinstance(value, list) else value


def source(m, layer):
    """The layer whose keys and values this one reads: of the same kind, the last that has some."""
    own = m.n_layers - m.get("attention.shared_kv_layers", 0)
    if layer < own: return layer
    return max(i for i in range(own) if m.is_windowed(i) == m.is_windowed(layer))


def table(m, layer, n):
    local = m.is_windowed(layer)
    end = "_swa" if local else ""
    dim = m.get("rope.dimension_count" + end) or m.get("attention.key_length" + end) or m.head_dim
    base = m.get("rope.freq_base_swa", 10000.0) if local else m.get("rope.freq_base")
    freq = np.power(float(base), -np.arange(0, dim, 2) / dim)
    divisors = m.w("rope_freqs.weight", False)
    if divisors is not None and not local: freq = freq / divisors
    angle = np.outer(np.arange(n), freq)
    return np.cos(angle).astype(F), np.sin(angle).astype(F), dim


def attention(m, x, layer):
    b, n, local = f"blk.{layer}.", len(x), m.is_windowed(layer)
    dim = m.get("attention.key_length")
    if local: dim = m.get("attention.key_length_swa", dim)
    turn = table(m, layer, n)
    q = m.linear(x, b + "attn_q").reshape(n, -1, dim)
    q = m.rotate(rms(q, m.w(b + "attn_q_norm.weight"), m.eps), turn)
    if source(m, layer) == layer:
        k = m.linear(x, b + "attn_k").reshape(n, -1, dim)
        v = m.linear(x, b + "attn_v").reshape(n, -1, dim) if b + "attn_v.weight" in m.tensors else k
        k = m.rotate(rms(k, m.w(b + "attn_k_norm.weight"), m.eps), turn)
        m.kept[layer] = k, rms(v, None, m.eps)
    k, v = (np.repeat(t, q.shape[1] // t.shape[1], axis=1) for t in m.kept[source(m, layer)])
    score = np.einsum("ihd,jhd->hij", q, k, optimize=True)
    back = np.arange(n)[:, None] - np.arange(n)[None, :]
    hidden = back < 0
    if local: hidden = hidden | (back >= m.get("attention.sliding_window"))
    score = np.where(hidden, F(-np.inf), score)
    score = np.exp(score - score.max(axis=-1, keepdims=True))
    score /= score.sum(axis=-1, keepdims=True)
    out = np.einsum("hij,jhd->ihd", score, v, optimize=True).reshape(n, -1)
    return m.linear(out, b + "attn_output")


def begin(m, x, ids):
    """What the layers take of the tokens: rows [layers][tokens][columns]."""
    m.kept, m.rows = {}, None
    wide = m.get("embedding_length_per_layer_input", 256 if m.arch == "gemma3n" else 0)
    if not wide: return x
    token = m.w("per_layer_token_embd.weight")[np.asarray(ids)] * F(math.sqrt(wide))
    if "per_layer_model_proj.weight" in m.tensors:
        made = m.linear(x, "per_layer_model_proj").reshape(len(x), m.n_layers, wide)
        norms = m.w("per_layer_proj_norm.weight")
    else:               # as QSF files have it: each layer's rows of the matrix in the layer
        made = np.stack([m.linear(x, f"blk.{i}.layer_embd") for i in range(m.n_layers)], axis=1)
        norms = m.w("blk.0.layer_embd_norm.weight")
    made = rms(made * F(1 / math.sqrt(m.n_embd)), norms, m.eps)
    m.rows = (made + token.reshape(made.shape)) * F(1 / math.sqrt(2))
    if m.arch != "gemma3n": return x
    makes = m.w("altup_proj.weight" if "altup_proj.weight" in m.tensors else "blk.0.altup_proj.weight")
    others = [as_long(x @ w.T, x) for w in makes.reshape(3, m.n_embd, m.n_embd)]
    return np.stack([x, *others])                       # [streams][tokens][columns]


def as_long(x, of):
    own = np.sum(x * x, -1, keepdims=True)
    by = np.sum(of * of, -1, keepdims=True) / np.where(own > 0, own, 1)
    return x * np.sqrt(np.where(own > 0, by, 0))        # a stream of zeros stays one


def streams(m, x, i):
    """A layer of Gemma 3n: predict, compute the first stream, correct."""
    b, n = f"blk.{i}.", x.shape[1]
    def likeness(x):
        y = rms(x, m.w(b + "altup_router_norm.weight"), m.eps) * F(1 / m.n_embd)
        return np.tanh(y @ m.w(b + "altup_router.weight").reshape(4, -1).T)
    def coefs(x, name): return likeness(x) @ m.w(b + name + ".weight").reshape(-1, 4).T
    c = coefs(x[0], "altup_predict_coef").reshape(n, 4, 4)
    x = x + np.einsum("nkj,jne->kne", c, x)
    normed = m.norm(x[0], b + "attn_norm")
    around = m.linear(m.linear(normed, b + "laurel_l"), b + "laurel_r")
    around = normed + m.norm(around, b + "laurel_post_norm")
    y = x[0] + m.norm(attention(m, normed, i), b + "post_attention_norm")
    y = (y + around) * F(1 / math.sqrt(2))
    normed = m.norm(y, b + "ffn_norm")
    gate, up = m.linear(normed, b + "ffn_gate"), m.linear(normed, b + "ffn_up")
    if i < 10:
        least = gate.mean(-1, keepdims=True) + gate.std(-1, ddof=1, keepdims=True) * F(1.6448533535003662)
        gate = np.maximum(gate - least, F(0))
    y = y + m.norm(m.linear(m.gelu(gate) * up, b + "ffn_down"), b + "post_ffw_norm")
    x = x + (coefs(y, "altup_correct_coef") + 1).T[..., None] * (y - x[0])
    y = m.gelu(m.linear(x[0] * m.w(b + "altup_correct_scale.weight"), b + "inp_gate")) * m.rows[:, i]
    x[1:] += m.norm(m.linear(y, b + "proj"), b + "post_norm")
    return x


def end(m, x):
    """The mean of all streams, each as long as the first."""
    if "altup_unembd_proj.weight" in m.tensors:
        back = m.w("altup_unembd_proj.weight").reshape(3, m.n_embd, m.n_embd)
    else: back = [m.w(f"blk.{m.n_layers - 1}.altup_back_{k}.weight") for k in (1, 2, 3)]
    return (x[0] + sum(as_long(x[k + 1] @ w.T, x[0]) for k, w in enumerate(back))) * F(0.25)


def beside(m, x, b):
    """Routed experts besides the shared feed-forward; both, and the router, take the stream as input."""
    y = rms(x, m.w(b + "ffn_gate_inp.scale"), m.eps) * F(1 / math.sqrt(m.n_embd))
    score = m.linear(y, b + "ffn_gate_inp")
    score = np.exp(score - score.max(axis=-1, keepdims=True))
    chosen = np.argsort(-score, axis=-1, kind="stable")[:, :m.get("expert_used_count")]
    weight = np.take_along_axis(score, chosen, axis=-1)
    weight = weight / weight.sum(axis=-1, keepdims=True) * m.w(b + "ffn_down_exps.scale")[chosen]
    y = sum_of_experts(m, m.norm(x, b + "pre_ffw_norm_2"), b, chosen, weight)
    y = m.norm(y, b + "post_ffw_norm_2")
    return y + m.norm(m.dense(m.norm(x, b + "ffn_norm"), b), b + "post_ffw_norm_1")


def layer(m, x, i):
    if m.arch == "gemma3n": return streams(m, x, i)
    b = f"blk.{i}."
    x = x + m.norm(attention(m, m.norm(x, b + "attn_norm"), i), b + "post_attention_norm")
    y = (beside(m, x, b) if b + "ffn_gate_inp.weight" in m.tensors else
         m.ffn(m.norm(x, b + "ffn_norm"), b))
    x = x + m.norm(y, b + "post_ffw_norm")
    if m.rows is not None:
        y = m.gelu(m.linear(x, b + "inp_gate")) * m.rows[:, i]
        x = x + m.norm(m.linear(y, b + "proj"), b + "post_norm")
    scale = m.w(b + "layer_output_scale.weight", False)
    return x if scale is None else x * scale
