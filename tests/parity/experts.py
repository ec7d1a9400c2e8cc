"""Mixtures of experts for reference.py.  From the models' descriptions.
SPDX-License-Identifier: MIT
"""
import numpy as np

F = np.float32
# the weights of chosen experts are made to have the sum 1
NORMED_EXPERTS = {"llama", "qwen3moe", "granitemoe", "ernie4_5-moe", "gpt-oss", "lfm2moe",
                  "granitehybrid", "qwen35moe", "qwen3next", "smallthinker", "phimoe"}


def silu(x):
    return x / (F(1) + np.exp(-x))


def relu2(x):
    return np.square(np.maximum(x, F(0)))


def swiglu_oai(gate, up):
    gate, up = np.minimum(gate, F(7)), np.clip(up, F(-7), F(7))
    return gate / (1 + np.exp(F(-1.702) * gate)) * (up + 1)


def matrix(m, b, name, e, rows):
    """One of the merged tensors', with its own scale."""
    scale = None if m.arch == "gemma4" else m.w(f"{b}ffn_{name}_exps.scale", False)
    one = m.w(f"{b}ffn_{name}_exps.weight").reshape(m.get("expert_count"), rows, -1)[e]
    return one if scale is None else one * scale[e]


def bias(m, b, name, e):
    t = m.w(f"{b}ffn_{name}_exps.bias", False)
    return F(0) if t is None else t.reshape(m.get("expert_count"), -1)[e]


def of_layer(m, key, b):
    """A number of all layers, or one for each."""
    value = m.get(key)
    return value[int(b.split(".")[1])] if isinstance(value, list) else value


def hidden(m, x, b, e):
    """What an expert narrows again."""
    ff = of_layer(m, "expert_feed_forward_length", b)
    if m.arch == "nemotron_h_moe": return relu2(x @ matrix(m, b, "up", e, ff).T)
    if b + "ffn_gate_up_exps.weight" in m.tensors: gate, up = np.split(matrix(m, b, "gate_up", e, 2 * ff), 2)
    else: gate, up = (matrix(m, b, name, e, ff) for name in ("gate", "up"))
    act = swiglu_oai if m.arch == "gpt-oss" else lambda gate, up: silu(gate) * up
    if m.arch == "gemma4": act = lambda gate, up: m.gelu(gate) * up
    if m.arch == "smallthinker": act = lambda gate, up: np.maximum(gate, F(0)) * up
    return act(x @ gate.T + bias(m, b, "gate", e), x @ up.T + bias(m, b, "up", e))


def expert(m, x, b, e):
    return hidden(m, x, b, e) @ matrix(m, b, "down", e, x.shape[1]).T + bias(m, b, "down", e)


def of_best_groups(m, score):
    """Of groups of neighbours those with the largest sums of two are chosen from (DeepSeek-V3)."""
    groups = score.reshape(len(score), m.get("expert_group_count"), -1)
    worth = np.sort(groups, axis=-1)[..., -2:].sum(axis=-1)
    order = np.argsort(-worth, axis=-1, kind="stable")
    gone = np.zeros(worth.shape, bool)
    np.put_along_axis(gone, order[:, m.get("expert_group_used_count"):], True, axis=-1)
    return np.where(gone[..., None], F(-np.inf), groups).reshape(score.shape)


def mixture(m, x, b):
    """Each row's best experts by a router's probabilities, and what every row takes."""
    score = m.linear(m.layer_input if m.arch == "smallthinker" else x, b + "ffn_gate_inp")
    if m.arch == "gpt-oss": pass                      # softmax of the chosen ones alone
    elif m.get("expert_gating_func") == 2 or m.arch == "nemotron_h_moe": score = 1 / (1 + np.exp(-score))
    else:
        score = np.exp(score - score.max(axis=-1, keepdims=True))
        score /= score.sum(axis=-1, keepdims=True)
    bias = m.w(b + "exp_probs_b.bias", False)
    best = score if bias is None else score + bias
    if m.get("expert_group_count", 0) > 1: best = of_best_groups(m, best)
    chosen = np.argsort(-best, axis=-1, kind="stable")[:, :of_layer(m, "expert_used_count", b)]
    weight = np.take_along_axis(score, chosen, axis=-1)
    if m.arch == "gpt-oss": weight = np.exp(weight - weight.max(axis=-1, keepdims=True))
    if m.get("expert_weights_norm", m.arch in NORMED_EXPERTS):
        weight /= weight.sum(axis=-1, keepdims=True)
    weight *= F(m.get("expert_weights_scale", 1.0))
    narrow = b + "ffn_latent_down.weight" in m.tensors
    y = sum_of_experts(m, m.linear(x, b + "ffn_latent_down") if narrow else x, b, chosen, weight)
    if narrow: y = m.linear(y, b + "ffn_latent_up")
    names = [b + f"ffn_{n}_shexp.weight" for n in ("gate", "up", "down")]
    if names[1] not in m.tensors: return y
    if names[0] not in m.tensors: return y + relu2(x @ m.w(names[1]).T) @ m.w(names[2]).T
    gate, up, down = (m.w(n) for n in names)
    shared = (silu(x @ gate.T) * (x @ up.T)) @ down.T
    own = m.w(b + "ffn_gate_inp_shexp.weight", False)
    return y + (shared if own is None else shared / (1 + np.exp(-(x @ own)))[:, None])


def sum_of_experts(m, x, b, chosen, weight):
    y = np.zeros_like(x)
    for e in range(m.get("expert_count")):
        rows, place = np.nonzero(chosen == e)
        if len(rows): y[rows] += weight[rows, place, None] * expert(m, x[rows], b, e)
    return y
