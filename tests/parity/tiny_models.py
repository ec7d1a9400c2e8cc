"""What the random models of make_tiny.py are: one description each, by groups of architectures.
SPDX-License-Identifier: MIT
"""
from gguf import GGMLQuantizationType as Q

import gguf_types       # the types that the package lacks

SMALL = dict(arch="llama", n_embd=64, n_layers=3, n_heads=4, n_kv_heads=2, n_ff=176, type=Q.F32, tied=False,
             vocab="bpe", kv={}, c=512)
WIDE = dict(SMALL, n_embd=256, n_layers=2, n_ff=512)

def hybrids():
    """Layers with other mixers than attention; kinds: one letter a layer, a: attention.  one_part: a layer is
    a mixer or a feed-forward (f)."""
    odd = dict(SMALL, n_embd=72, n_heads=6, n_kv_heads=2, n_ff=140, n_layers=5)
    yield "lfm2", dict(odd, arch="lfm2", tied=True, qk_norm="head", kinds="ccaca", final="token_embd_norm",
                       kv={"shortconv.l_cache": 3, "rope.freq_base": 1e6})
    yield "lfm2-q8_0", dict(odd, arch="lfm2", n_embd=96, n_ff=160, tied=True, qk_norm="head", kinds="cac",
                            n_layers=3, final="token_embd_norm", type=Q.Q8_0, one=True,
                            kv={"shortconv.l_cache": 4})
    granite = {"embedding_scale": 3.0, "residual_scale": 0.6, "logit_scale": 2.5, "attention.scale": 0.4}
    yield "granitehybrid", dict(odd, arch="granitehybrid", tied=True, kinds="mmam", n_layers=4,
                                kv={**granite, "rope.scaling.finetuned": False, **ssm(144, 9, 3, 20)})
    yield "granitehybrid-rope", dict(odd, arch="granitehybrid", kinds="ma", n_layers=2, one=True,
                                     kv={"logit_scale": 3.0, **ssm(144, 6, 1, 16)})

    yield "qwen35", dict(odd, arch="qwen35", n_heads=4, head_dim=20, tied=True, kinds="ddadd", qk_norm="head",
                         attn_gate=True, ffn_norm="post_attention_norm", sections=[3, 2, 2, 0],
                         kv={"rope.dimension_count": 14, "full_attention_interval": 3,
                             **ssm(84, 6, 3, 14)})

    bare = dict(odd, kinds="mmm", n_layers=3, one_part=True)
    yield "mamba2", dict(bare, arch="mamba2", tied=True, kv=ssm(144, 9, 3, 20))
    yield "mamba2-q8_0", dict(bare, arch="mamba2", n_embd=96, type=Q.Q8_0, one=True, kv=ssm(192, 6, 1, 16))
    slow = {**ssm(144, 5, 1, 9), "ssm.dt_b_c_rms": False}
    yield "mamba", dict(bare, arch="mamba", kinds="sss", tied=True, kv=slow)
    yield "falcon-mamba", dict(bare, arch="mamba", kinds="ss", n_layers=2, one=True,
                               kv={**slow, "ssm.dt_b_c_rms": True})
    yield "nemotron_h", dict(bare, arch="nemotron_h", kinds="mfamfa", n_layers=6, gated=False, head_dim=20,
                             seed=3008, kv=ssm(126, 9, 3, 20))
    yield "falcon-h1", dict(odd, arch="falcon-h1", kinds="bbb", n_layers=3, head_dim=20, no_ssm_norm=True,
                            seed=3009, kv={"rope.freq_base": 1e6, **ssm(100, 5, 1, 20)})
    yield "falcon-h1-norm", dict(odd, arch="falcon-h1", kinds="bb", n_layers=2, tied=True, one=True,
                                 seed=3010, kv=ssm(144, 6, 2, 18))

    plamo = dict(odd, arch="plamo2", tied=True, kinds="appa", n_layers=4, head_dim=20, fused=True, post=True,
                 qk_norm="each", bare=True, vocab="spm", kv={"rope.freq_base": 1e6, **ssm(90, 5, 0, 14)})
    yield "plamo2", plamo
    # llama.cpp does not rotate where the first layer has no heads
    yield "plamo2-first", dict(plamo, kinds="pap", n_layers=3, one=True, judge="reference")
    yield "plamo2-q8_0", dict(plamo, n_embd=96, n_ff=160, kinds="ap", n_layers=2, n_heads=4, n_kv_heads=1,
                              head_dim=32, tied=False, type=Q.Q8_0, one=True, kv=ssm(96, 3, 0, 32))

def ssm(inner, heads, groups, state, conv=4):
    return {"ssm.conv_kernel": conv, "ssm.inner_size": inner, "ssm.state_size": state,
            "ssm.time_step_rank": heads, "ssm.group_count": groups}

def others():
    """Architectures of which only some parts are those above, each with what it alone has; sizes that no
    block divides."""
    odd = dict(SMALL, n_embd=72, n_heads=6, n_kv_heads=2, n_ff=140, shaped=True)
    layer = dict(odd, norm="layer")
    mha = dict(layer, n_kv_heads=6, fused=True, fused_gate=False, gated=False, norm_bias=True, qkv_bias=True,
               out_bias=True, ffn_bias=True)
    scaled = {"embedding_scale": 3.0, "residual_scale": 0.6, "logit_scale": 2.5}
    yarn = {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0,
            "rope.scaling.original_context_length": 16}
    deep = dict(odd, n_embd=24, n_heads=2, n_kv_heads=1, n_ff=36, one=True, gain=0.5)
    yield "smollm3", dict(odd, arch="smollm3", n_layers=5, tied=True, kv={"rope.freq_base": 5e6})
    yield "granite", dict(odd, arch="granite", tied=True, kv={**scaled, "attention.scale": 0.4})
    yield "granite-still", dict(odd, arch="granite", one=True, kv={"logit_scale": 3.0,
                                                                    "rope.scaling.finetuned": False})
    yield "minicpm", dict(odd, arch="minicpm", kv=scaled)
    yield "mistral3", dict(odd, arch="mistral3", head_dim=20, kv={
        "attention.temperature_scale": 0.3, "rope.scaling.yarn_log_multiplier": 1.0, **yarn})
    yield "arcee", dict(odd, arch="arcee", gated=False, rope_freqs=True)
    yield "ernie4_5", dict(odd, arch="ernie4_5", tied=True, kv={"rope.freq_base": 5e5})
    yield "internlm2", dict(odd, arch="internlm2")
    yield "seed_oss", dict(odd, arch="seed_oss", head_dim=20, qkv_bias=True, ffn_norm="post_attention_norm")
    yield "hunyuan-dense", dict(odd, arch="hunyuan-dense", head_dim=20, qk_norm="head", tied=True)
    yield "glm4", dict(odd, arch="glm4", fused_gate=True, post=True, qkv_bias=True, head_dim=20,
                       kv={"rope.dimension_count": 10})
    yield "olmo2", dict(odd, arch="olmo2", flow="post", post=True, qk_norm="all")
    yield "olmo2-window", dict(odd, arch="olmo2", n_layers=5, flow="post", post=True, qk_norm="all",
                               kv={"attention.sliding_window": 9, **yarn})
    yield "exaone4", dict(odd, arch="exaone4", flow="post", post=True, qk_norm="head", tied=True,
                          rope_freqs=True)
    yield "exaone4-window", dict(deep, arch="exaone4", n_layers=64, flow="post", post=True, qk_norm="head",
                                 kv={"attention.sliding_window": 9})
    yield "apertus", dict(odd, arch="apertus", gated=False, qk_norm="head", rope_freqs=True, xielu=True)
    yield "qwen", dict(odd, arch="qwen", n_kv_heads=6, fused=True, fused_gate=False, qkv_bias=True,
                       ff_times=2)
    yield "baichuan", dict(deep, arch="baichuan", n_layers=32, n_kv_heads=2)
    yield "baichuan-alibi", dict(deep, arch="baichuan", n_layers=40, n_heads=3, n_kv_heads=3)
    yield "stablelm", dict(layer, arch="stablelm", norm_bias=True, qkv_bias=True,
                           kv={"rope.dimension_count": 4})
    yield "stablelm-parallel", dict(layer, arch="stablelm", norm_bias=True, flow="parallel", qk_norm="each",
                                    kv={"rope.dimension_count": 4})
    yield "starcoder2", dict(mha, arch="starcoder2", n_kv_heads=2, fused=False, tied=True)
    yield "phi2", dict(mha, arch="phi2", flow="parallel", output_bias=True, kv={"rope.dimension_count": 6})
    yield "falcon", dict(mha, arch="falcon", n_kv_heads=1, flow="parallel", qkv_bias=False, out_bias=False,
                         ffn_bias=False, tied=True)
    yield "falcon-two-norms", dict(mha, arch="falcon", n_kv_heads=2, flow="parallel", two_norms=True,
                                   qkv_bias=False, out_bias=False, ffn_bias=False)
    yield "gptneox", dict(mha, arch="gptneox", flow="serial",
                          kv={"rope.dimension_count": 4, "use_parallel_residual": True})
    yield "gptneox-serial", dict(mha, arch="gptneox", one=True,
                                 kv={"rope.dimension_count": 6, "use_parallel_residual": False})
    yield "command-r", dict(layer, arch="command-r", flow="parallel", tied=True, kv={"logit_scale": 0.6})
    yield "command-r-norms", dict(deep, arch="command-r", norm="layer", n_layers=64, flow="parallel",
                                  tied=True, qk_norm="each", kv={"logit_scale": 0.7})
    yield "cohere2", dict(layer, arch="cohere2", n_layers=5, flow="parallel", tied=True,
                          kv={"logit_scale": 0.6, "attention.sliding_window": 9})
    yield "olmo", dict(layer, arch="olmo", no_norms=True, kv={"attention.clamp_kqv": 1.1})
    yield "nemotron", dict(layer, arch="nemotron", norm_bias=True, gated=False,
                           kv={"rope.dimension_count": 6})
    yield "mpt", dict(mha, arch="mpt", norm_bias=False, qkv_bias=False, out_bias=False, ffn_bias=False,
                      tied=True, kv={"attention.max_alibi_bias": 8.0, "attention.clamp_kqv": 1.3})
    yield "bloom", dict(mha, arch="bloom", token_norm=True, tied=True)
    # sections that cover all that turns: llama.cpp leaves some of others still in text
    # llama.cpp does not read the epsilon of qwen2vl and takes 0
    yield "qwen2vl", dict(odd, arch="qwen2vl", qkv_bias=True, tied=True, judge="reference",
                          kv={"rope.dimension_sections": [1, 2, 3, 0], "rope.freq_base": 1e6})
    yield "qwen3vl", dict(odd, arch="qwen3vl", head_dim=20, qk_norm="head",
                          kv={"rope.dimension_sections": [4, 3, 3, 0]})
    # GLM's models with pictures turn halves
    yield "glm4-sections", dict(odd, arch="glm4", fused_gate=True, post=True, head_dim=20, one=True,
                                kv={"rope.dimension_count": 10, "rope.dimension_sections": [2, 2, 1, 0]})
    yield "cohere2-list", dict(layer, arch="cohere2", n_layers=4, flow="parallel", tied=True, one=True,
                               kv={"logit_scale": 0.6, "attention.sliding_window": 9,
                                   "attention.sliding_window_pattern": [True, False, False, True]})
    yield "qwen35-fused", dict(odd, arch="qwen35", n_heads=4, head_dim=20, kinds="da", n_layers=2, fused=True,
                               fused_gate=False, qk_norm="head", attn_gate=True, one=True,
                               ffn_norm="post_attention_norm", sections=[3, 2, 2, 0],
                               kv={"rope.dimension_count": 14, "full_attention_interval": 2,
                                   **ssm(84, 6, 3, 14)})

def gemmas():
    """Gemma's later ones: windowed layers have heads of another size, the last layers read others' keys,
    and tokens have a row for each layer."""
    def gemma(arch, pattern, shared, wide, narrow, row, **more):
        n = len(pattern)
        each = [dict(head_dim=narrow if w else wide, no_keys=i >= n - shared) for i, w in enumerate(pattern)]
        for name, sizes in more.pop("sizes", {}).items():
            for e, size in zip(each, sizes): e[name] = size
        kv = {"attention.sliding_window": 9, "attention.sliding_window_pattern": pattern,
              "attention.shared_kv_layers": shared, "embedding_length_per_layer_input": row,
              "final_logit_softcapping": 12.0, "rope.freq_base": 1e6, **more.pop("kv", {})}
        return dict(SMALL, arch=arch, n_embd=72, n_heads=4, n_ff=140, n_layers=n, head_dim=wide, post=True,
                    qk_norm="head", qk_norms=(0.45, 0.1), tied=True, each=each, row=row, vocab="spm",
                    kv=kv, **more)
    heads = {"attention.key_length_swa": 20, "attention.value_length_swa": 20, "rope.dimension_count_swa": 20,
             "rope.freq_base_swa": 1e4}
    yield "gemma4", gemma("gemma4", [True, True, False] * 3, 3, 44, 20, 14, rope_freqs=True, out_scale=True,
                          sizes={"n_ff": [140] * 6 + [212] * 3}, kv=heads)
    yield "gemma4-plain", gemma("gemma4", [True, False] * 2, 0, 36, 20, 0, rope_freqs=True, k_is_v=(1, 3),
                                sizes={"n_kv_heads": [2, 1, 2, 1]}, kv=heads, one=True)
    # more rows for layers than all else
    yield "gemma4-rows", gemma("gemma4", [True, False], 0, 20, 20, 3000, rope_freqs=True, kv=heads, one=True)
    experts = {"expert_count": 6, "expert_used_count": 2, "expert_feed_forward_length": 22}
    mixture = gemma("gemma4", [True, False, True], 0, 36, 20, 0, rope_freqs=True, out_scale=True,
                    kv={**heads, **experts}, experts=dict(n=6, ff=22, shared=0, beside=True, fused=True))
    heads = {k: v // 20 * 32 if isinstance(v, int) else v for k, v in heads.items()}
    yield "gemma4-q8_0", dict(gemma("gemma4", [True, False, True, False], 2, 64, 32, 32, rope_freqs=True,
                                    kv=heads, type=Q.Q8_0, one=True), n_embd=96, n_ff=160)
    yield "gemma4-moe", mixture
    yield "gemma4-moe-apart", dict(mixture, n_embd=60, n_ff=90, n_heads=3, n_kv_heads=1, one=True, n_layers=2,
                                   each=mixture["each"][:2], experts=dict(mixture["experts"], fused=False),
                                   kv={**mixture["kv"], "expert_used_count": 3,
                                       "attention.sliding_window_pattern": [True, False]})

def gemma3n():
    """llama.cpp knows it with 20 layers that have keys, 4 streams and rows of 256."""
    n = 25
    pattern = [i % 5 < 4 for i in range(n)]
    kv = {"attention.sliding_window": 9, "attention.sliding_window_pattern": pattern, "rope.freq_base": 1e6,
          "rope.freq_base_swa": 1e4, "attention.shared_kv_layers": n - 20}
    yield "gemma3n", dict(SMALL, arch="gemma3n", n_embd=44, n_heads=4, n_kv_heads=2, head_dim=12, n_ff=76,
                          n_layers=n, post=True, qk_norm="head", qk_norms=(0.6, 0.1), tied=True, row=256,
                          altup=True, gain=0.35, vocab="spm", kv=kv, one=True)

def mixtures():
    """Architectures with experts; their sizes are not multiples of a block or tile."""
    def moe(arch, n, used, ff, shared=0, kv={}, **more):
        keys = {"expert_count": n, "expert_used_count": used, "expert_feed_forward_length": ff,
                **({"expert_shared_feed_forward_length": shared} if shared else {}), **kv}
        return dict(SMALL, arch=arch, n_embd=72, n_heads=6, n_kv_heads=2, n_ff=ff, shaped=True, kv=keys,
                    experts=dict(dict(n=n, ff=ff, shared=shared), **more.pop("experts", {})), **more)
    yield "mixtral", moe("llama", 5, 2, 44)
    yield "mixtral-q8_0", dict(moe("llama", 4, 2, 96), n_embd=64, n_heads=4, type=Q.Q8_0)
    yield "qwen2moe", moe("qwen2moe", 6, 3, 28, 40, qkv_bias=True, experts=dict(gate=True))
    yield "qwen3moe", moe("qwen3moe", 9, 4, 20, head_dim=20, qk_norm="head", tied=True)
    yield "olmoe", dict(moe("olmoe", 7, 2, 26, qk_norm="all"), n_kv_heads=6)
    yield "granitemoe", moe("granitemoe", 5, 2, 30, 18, tied=True, kv={
        "embedding_scale": 3.0, "residual_scale": 0.6, "logit_scale": 2.5, "attention.scale": 0.4})
    later = dict(first=1, choice=True)
    yield "ernie4_5-moe", moe("ernie4_5-moe", 6, 2, 26, 38, experts=later, kv={
        "interleave_moe_layer_step": 1, "leading_dense_block_count": 1})
    yield "glm4moe", dict(moe("glm4moe", 8, 3, 22, experts=dict(later, shared=44), qkv_bias=True, head_dim=20,
        qk_norm="head", ffn_norm="post_attention_norm", nextn=1, kv={
        "leading_dense_block_count": 1, "expert_shared_count": 2, "expert_gating_func": 2,
        "expert_weights_norm": True, "expert_weights_scale": 1.7, "rope.dimension_count": 10,
        "nextn_predict_layers": 1}), n_layers=3)
    yield "bailingmoe2", moe("bailingmoe2", 12, 3, 18, 16, experts=dict(later, shared=32), fused=True,
        fused_gate=False, qk_norm="head", kv={
        "leading_dense_block_count": 1, "expert_shared_count": 2, "expert_gating_func": 2,
        "expert_weights_norm": True, "expert_weights_scale": 2.5, "expert_group_count": 4,
        "expert_group_used_count": 2})
    oss = dict(moe("gpt-oss", 6, 2, 26, experts=dict(bias=True), qkv_bias=True, out_bias=True, head_dim=20,
                   ffn_norm="post_attention_norm", sinks=True, kv={
        "attention.sliding_window": 9, "rope.freq_base": 150000.0, "rope.scaling.type": "yarn",
        "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 16}), n_layers=4)
    yield "gpt-oss", oss
    yield "gpt-oss-mxfp4", dict(oss, n_embd=64, n_heads=4, head_dim=16, n_ff=32, type=Q.Q8_0, kv={
        **oss["kv"], "expert_feed_forward_length": 32}, experts=dict(oss["experts"], ff=32, type=Q.MXFP4))

def later_mixtures():
    """Experts with mixers that have state, and with other kinds of attention."""
    def moe(arch, n, used, ff, shared=0, kv={}, **more):
        keys = {"expert_count": n, "expert_used_count": used, "expert_feed_forward_length": ff,
                **({"expert_shared_feed_forward_length": shared} if shared else {}), **kv}
        each = dict(dict(n=n, ff=ff, shared=shared), **more.pop("experts", {}))
        sizes = dict(n_embd=72, n_heads=6, n_kv_heads=2, n_ff=ff)
        return {**SMALL, **sizes, **more, "arch": arch, "kv": keys, "experts": each}
    delta = dict(n_heads=4, head_dim=20, n_layers=4, kinds="ddad", qk_norm="head", attn_gate=True,
                 ffn_norm="post_attention_norm", experts=dict(gate=True))
    keys = {"rope.dimension_count": 14, "full_attention_interval": 3, **ssm(84, 6, 3, 14)}
    yield "qwen35moe", moe("qwen35moe", 7, 3, 22, 30, **delta, tied=True, sections=[3, 2, 2, 0], kv=keys)
    yield "qwen3next", moe("qwen3next", 9, 4, 18, 26, **delta, kv=keys)
    yield "qwen35-nextn", dict(SMALL, arch="qwen35", n_embd=72, n_ff=140, n_layers=2, n_heads=4, n_kv_heads=2,
                               head_dim=20, kinds="daa", qk_norm="head", attn_gate=True, nextn=1, one=True,
                               ffn_norm="post_attention_norm", sections=[3, 2, 2, 0],
                               kv={**keys, "full_attention_interval": 2, "nextn_predict_layers": 1})
    yield "lfm2moe", moe("lfm2moe", 8, 3, 26, n_ff=100, n_layers=4, tied=True, qk_norm="head", kinds="ccac",
                         final="token_embd_norm", experts=dict(first=1, choice=True), kv={
        "shortconv.l_cache": 3, "rope.freq_base": 1e6, "leading_dense_block_count": 1,
        "expert_gating_func": 2})
    yield "granitehybrid-moe", moe("granitehybrid", 5, 2, 30, 38, n_layers=3, tied=True, kinds="mam", kv={
        "embedding_scale": 3.0, "residual_scale": 0.6, "logit_scale": 2.5, "attention.scale": 0.4,
        "rope.scaling.finetuned": False, **ssm(144, 9, 3, 20)})

    deep = {"leading_dense_block_count": 1, "expert_shared_count": 2, "rope.dimension_count": 6,
            "rope.scaling.type": "yarn", "rope.scaling.original_context_length": 64}
    v3 = {**deep, "attention.q_lora_rank": 26, "attention.kv_lora_rank": 22, "attention.key_length": 28,
          "attention.value_length": 22, "attention.key_length_mla": 18, "attention.value_length_mla": 10,
          "expert_gating_func": 2, "expert_weights_norm": True, "expert_weights_scale": 2.5,
          "expert_group_count": 4, "expert_group_used_count": 2, "rope.scaling.factor": 4.0,
          "rope.scaling.yarn_log_multiplier": 0.1}
    yield "deepseek2", moe("deepseek2", 12, 3, 18, n_ff=100, n_heads=5, n_kv_heads=1, kinds="lll", kv=v3,
                           experts=dict(first=1, choice=True, shared=36))
    yield "deepseek2-q8_0", moe("deepseek2", 8, 3, 32, n_ff=96, n_embd=64, n_heads=4, n_kv_heads=1,
                                kinds="ll", n_layers=2, type=Q.Q8_0, one=True, judge="reference", kv={
        **v3, "attention.q_lora_rank": 64, "attention.kv_lora_rank": 32, "attention.key_length": 38,
        "attention.value_length": 32, "attention.key_length_mla": 38, "attention.value_length_mla": 32,
        "expert_weights_scale": 1.0},
        experts=dict(first=1, choice=True, shared=64))
    # llama.cpp knows by the number of layers that nothing is between queries
    yield "deepseek2-lite", moe("deepseek2", 6, 2, 14, n_ff=40, n_embd=40, n_heads=3, n_kv_heads=3,
                                kinds=27 * "l", n_layers=27, gain=0.5, experts=dict(first=1, shared=28), kv={
        **deep, "attention.kv_lora_rank": 20, "attention.key_length": 14, "attention.value_length": 10,
        "rope.scaling.factor": 40.0, "rope.scaling.yarn_log_multiplier": 0.0707})

    # llama.cpp takes any window for one of 4096
    yield "smallthinker", moe("smallthinker", 5, 3, 22, n_layers=5, head_dim=20, tied=True, kv={
        "attention.sliding_window": 4096, "expert_gating_func": 2, "rope.freq_base": 1.5e6})

def more_mixtures():
    """Experts with norms of their own, without a gate or in a smaller width; and what has a group's form."""
    def moe(arch, n, used, ff, shared=0, kv={}, **more):
        keys = {"expert_count": n, "expert_used_count": used, "expert_feed_forward_length": ff,
                **({"expert_shared_feed_forward_length": shared} if shared else {}), **kv}
        each = dict(dict(n=n, ff=ff, shared=shared), **more.pop("experts", {}))
        return {**SMALL, "n_embd": 72, "n_heads": 6, "n_ff": ff, **more, "arch": arch, "kv": keys,
                "experts": each}
    longrope = {"rope.scaling.original_context_length": 256, "rope.scaling.attn_factor": 1.19,
                "rope.dimension_count": 12}
    phimoe = moe("phimoe", 6, 2, 26, norm_bias=True, qkv_bias=True, out_bias=True, output_bias=True,
                 longrope=True, shaped=True, kv=longrope)
    yield "phimoe", dict(phimoe, c=256)
    yield "phimoe-long", dict(phimoe, c=512, n_embd=60, n_heads=5, n_kv_heads=1, one=True,
                              kv={**phimoe["kv"], "expert_used_count": 3})
    yield "phimoe-window", dict(phimoe, c=256, one=True, judge="reference",
                                kv={**phimoe["kv"], "attention.sliding_window": 12})
    latent = {"attention.q_lora_rank": 26, "attention.kv_lora_rank": 22, "attention.key_length": 18,
              "attention.value_length": 10, "rope.dimension_count": 6,
              "rope.scaling.original_context_length": 256, "rope.scaling.attn_factor": 1.1}
    minicpm3 = dict(SMALL, arch="minicpm3", n_embd=72, n_heads=5, n_kv_heads=5, n_ff=140, kinds="lll",
                    rope_dim=6, longrope=True, embd=0.1, final_mean=0.7, kv=latent)
    yield "minicpm3", dict(minicpm3, c=256)
    yield "minicpm3-long", dict(minicpm3, n_embd=44, n_heads=3, n_kv_heads=3, tied=True, one=True)
    nemotron = dict(n_layers=6, kinds="meaeme", one_part=True, gated=False, head_dim=20, n_ff=52)
    sums = {"expert_weights_norm": True, "expert_weights_scale": 1.7, "expert_gating_func": 2,
            **ssm(126, 9, 3, 20)}
    yield "nemotron_h_moe", moe("nemotron_h_moe", 9, 3, 26, 38, **nemotron, kv={
        **sums, "expert_group_count": 3, "expert_group_used_count": 2}, experts=dict(choice=True))
    yield "nemotron_h_moe-narrow", moe("nemotron_h_moe", 7, 2, 22, 30, **nemotron, kv={
        **sums, "moe_latent_size": 34}, experts=dict(choice=True, wide=34))
    yield "nemotron_h_moe-q8_0", moe("nemotron_h_moe", 8, 3, 32, 64, **{
        **nemotron, "n_embd": 96, "n_heads": 3, "n_kv_heads": 1, "head_dim": 32, "type": Q.Q8_0, "one": True,
        "judge": "reference"},
        kv={**sums, **ssm(192, 6, 1, 16), "moe_latent_size": 32, "expert_group_count": 4,
            "expert_group_used_count": 2}, experts=dict(choice=True, wide=32))
    yield "qwen3next-one", moe("qwen3next", 6, 2, 18, 26, n_heads=4, head_dim=20, n_layers=3, kinds="dad",
                               qk_norm="head", attn_gate=True, ffn_norm="post_attention_norm", in_one=True,
                               experts=dict(gate=True, fused=True), kv={
        "rope.dimension_count": 14, "full_attention_interval": 2, **ssm(84, 6, 3, 14)})
    yield "nemotron_h_moe-uneven", moe("nemotron_h_moe", 8, [0, 3, 0, 1, 0, 4], [0, 26, 0, 40, 0, 18], 30, **{
        **nemotron, "one": True, "seed": 5109}, kv=sums, experts=dict(choice=True))
    # as NVFP4 models have them
    yield "mixtral-scales", moe("llama", 5, 2, 44, one=True, experts=dict(scales=("gate", "up", "down")))


def encoders():
    """Models that embed texts: attention in both directions, and what only they have."""
    odd = dict(SMALL, n_embd=72, n_heads=6, n_kv_heads=6, n_ff=140, norm="layer", norm_bias=True, flow="sums",
               token_norm=True, no_output=True, encoder=True,
               kv={"attention.causal": False, "pooling_type": 1})
    bert = dict(odd, arch="bert", gated=False, qkv_bias=True, out_bias=True, ffn_bias=True, types=2,
                learned=True)
    yield "bert", bert
    yield "bert-rank", dict(bert, classes=1, kv={"attention.causal": False, "pooling_type": 4})
    yield "nomic-bert", dict(odd, arch="nomic-bert", types=1, fused=True, fused_gate=False,
                             kv={"attention.causal": False, "pooling_type": 1, "rope.freq_base": 1000.0})
    yield "jina-bert-v2", dict(odd, arch="jina-bert-v2", types=2, qkv_bias=True, out_bias=True,
                               ffn_bias="down", fused_gate=True)
    yield "jina-bert-v2-norms", dict(odd, arch="jina-bert-v2", types=2, qkv_bias=True, out_bias=True,
                                     ffn_bias="down", qk_norm="all", qk_bias=True,
                                     kv={"attention.causal": False, "pooling_type": 2})
    modern = dict(odd, arch="modern-bert", n_layers=5, norm_bias=False, flow="serial", no_output=False,
                  fused=True, bare_begin=True, kv={"attention.causal": False, "pooling_type": 2,
                  "attention.sliding_window": 8, "rope.freq_base": 160000.0, "rope.freq_base_swa": 1000.0})
    yield "modern-bert", modern
    gemma = dict(SMALL, arch="gemma-embedding", n_layers=7, n_embd=72, n_heads=4, n_kv_heads=1, head_dim=20,
                 n_ff=140, tied=True, vocab="spm", qk_norm="head", post=True, encoder=True,
                 kv={"attention.causal": False, "pooling_type": 1, "attention.sliding_window": 9,
                     "rope.freq_base": 1e6, "rope.freq_base_swa": 10000.0})
    yield "gemma-embedding", gemma
    yield "gemma-embedding-dense", dict(gemma, dense=100)
    yield "qwen3-rank", dict(SMALL, arch="qwen3", n_embd=72, n_heads=4, n_kv_heads=2, head_dim=20, n_ff=140,
                             classes=2, kv={"pooling_type": 4})
    turned = {"attention.causal": False, "pooling_type": 1, "rope.freq_base": 1000.0}
    moe = dict(odd, arch="nomic-bert-moe", n_layers=4, gated=False, types=1, fused=True, fused_gate=False,
               qkv_bias=True, out_bias=True, ffn_bias=True, experts=dict(n=5, ff=140, shared=0, every=2),
               kv={**turned, "moe_every_n_layers": 2, "expert_count": 5, "expert_used_count": 2})
    yield "nomic-bert-moe", moe
    yield "nomic-bert-moe-third", dict(moe, n_layers=5, n_embd=84, n_ff=100, qkv_bias=False, out_bias=False,
                                       ffn_bias=False, experts=dict(n=9, ff=100, shared=0, every=3),
                                       kv={**moe["kv"], "moe_every_n_layers": 3, "expert_count": 9,
                                           "expert_used_count": 3})
    yield "jina-bert-v3", dict(bert, arch="jina-bert-v3", learned=False, types=1, kv=turned)
    yield "jina-bert-v2-twice", dict(odd, arch="jina-bert-v2", types=2, qkv_bias=True, out_bias=True,
                                     ffn_bias="down", fused_gate=True, two_norms=True)
    later = dict(SMALL, n_embd=72, n_heads=6, n_ff=140, tied=True, encoder=True,
                 kv={"attention.causal": False, "pooling_type": 3, "rope.freq_base": 250000.0})
    yield "eurobert", dict(later, arch="eurobert", n_kv_heads=2)
    yield "neo-bert", dict(later, arch="neo-bert", n_kv_heads=6, fused=True, final="enc.output_norm",
                           kv={**later["kv"], "pooling_type": 2, "rope.freq_base": 10000.0})

    yield "qwen3-both", dict(SMALL, arch="qwen3", n_embd=72, n_heads=4, n_kv_heads=2, head_dim=20, n_ff=140,
                             tied=True, kv={"attention.causal": False, "pooling_type": 3})

def bitnets():
    """Ternary weights of one magnitude a matrix, in every type that may hold them; two norms more."""
    bitnet = dict(WIDE, arch="bitnet", tied=True, ternary=True, kv={"rope.freq_base": 500000.0})
    later = dict(bitnet, arch="bitnet-b1.58", judge="reference")
    yield "bitnet", dict(bitnet, n_layers=3)
    yield "bitnet-f16", dict(bitnet, type=Q.F16)
    yield "bitnet-tq1_0", dict(bitnet, type=Q.TQ1_0)
    yield "bitnet-tq2_0", dict(bitnet, type=Q.TQ2_0)
    yield "bitnet-25", dict(later, arch="bitnet-25", n_embd=192, n_heads=3, n_kv_heads=3, n_ff=320)
    yield "bitnet-b1.58", dict(later, n_layers=3)
    yield "bitnet-b1.58-tq2_0", dict(later, type=Q.TQ2_0)
    yield "bitnet-i2_s", dict(bitnet, n_layers=3, i2_s=True, judge="bitnet.cpp")
