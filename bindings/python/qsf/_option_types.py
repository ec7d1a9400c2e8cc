"""The options whose names and ranges the engine has, for type checkers.
SPDX-License-Identifier: MIT

tools/make_python.py makes it from core/engine/options.c:
change those, not this file.
"""
from typing import Literal, Optional, TypedDict


class ContextOptions(TypedDict, total=False):
    """Options of load()."""

    # memory limit; layers that do not fit are streamed from the file; 0 for no limit; default 0
    ram_budget: Optional[float]
    # context length; 0 for the model's own, at most 4096; default 0
    context_length: Optional[int]
    # prompt tokens computed at once; default 256
    batch_size: Optional[int]
    # number of threads; 0 for one per processor; default 0
    threads: Optional[int]
    # type of cached keys and values: one for both, or one each (q8v4: 8-bit keys, 4-bit values);
    # docs/kv-cache.md shows what fewer bits cost; default 'q8'
    kv_type: Optional[Literal["f16", "q8", "f32", "q4", "q2", "q8v4", "q4v2"]]
    # compute with 32-bit floats throughout; slow, for comparison; default false
    f32: Optional[bool]
    # instruction set: scalar, sse42, avx2, avxvnni, avx512, avx512vbmi, avx512bf16, amx, neon,
    # dotprod, i8mm; else the best available
    isa: Optional[str]
    # below 1: skip the layers that the file marks as less important; default 1
    quality: Optional[float]
    # rows of the output head to compute: exact (all), screen (the best 256 of a 3-bit copy),
    # clusters (the nearest ones; needs qsf-convert --head-clusters); default 'exact'
    head_topk: Optional[Literal["exact", "screen", "clusters"]]
    # verify checksums on every read, not only the first; default false
    check_every: Optional[bool]
    # cache only the first few and the last N positions, so that text may exceed the context; 0
    # keeps all; default 0
    kv_window: Optional[int]
    # with a window: number of first positions to keep; default 4
    kv_sinks: Optional[int]
    # with a window: also keep the N positions outside it that drew the most attention; default 0
    kv_heavy: Optional[int]
    # if memory is short, use a window before shortening the context; default false
    kv_may_drop: Optional[bool]
    # skip to the last two layers once a token's hidden state has settled: cosine of at least F
    # (0.9 to 0.99) over two layers; 0 is off; default 0
    early_exit: Optional[float]
    # scales of 8-bit activations: one per 64 columns (block), or one per row (row), as BitNet
    # models were trained; default 'block'
    act_quant: Optional[Literal["block", "row"]]
    # products of 2-bit weights without scales, one row at a time: multiply-add (mad), table
    # lookup (lut), or the faster one here (auto); results are identical; default 'auto'
    kernel_route: Optional[Literal["auto", "mad", "lut"]]
    # with a ram-budget: memory reserved for adapters (LoRA); set by programs that load them
    # first; default 0
    adapter_memory: Optional[float]
    # if a progressive file fits in memory, start to answer with the high bits of its weights;
    # qsf_refine adds the low bits; default false
    first_stage: Optional[bool]
    # weights that do not fit into the GPU's memory pass through it: never (off), for batches of 8
    # and more tokens (prompts), for all, or if that is faster by a trial (auto); default 'auto'
    gpu_stream: Optional[Literal["auto", "off", "prompts", "all"]]


class SamplingOptions(TypedDict, total=False):
    """Options of answers."""

    # random seed; 0 for a new one each time; default 0
    seed: Optional[int]
    # sampling temperature; 0 takes the most likely token; default 0.7
    temperature: Optional[float]
    # keep the N most likely tokens; 0 for all; default 40
    top_k: Optional[int]
    # keep the most likely tokens that reach this total probability; default 0.9
    top_p: Optional[float]
    # drop tokens below this fraction of the most likely token's probability; default 0
    min_p: Optional[float]
    # make recent tokens less likely; 1 is off; default 1
    repeat_penalty: Optional[float]
    # penalty for each recent occurrence of a token; default 0
    frequency_penalty: Optional[float]
    # penalty for a token that occurred recently; default 0
    presence_penalty: Optional[float]
    # number of recent tokens that the penalties consider; default 64
    repeat_last_n: Optional[int]
    # penalty for a token that extends a repetition (DRY); 0 is off, 0.8 is usual; default 0
    dry_multiplier: Optional[float]
    # factor by which the DRY penalty grows with each token of the repetition; default 1.75
    dry_base: Optional[float]
    # longest repetition without a DRY penalty; default 2
    dry_allowed_length: Optional[int]
    # number of recent tokens that DRY searches for repetitions; default 1024
    dry_last_n: Optional[int]
    # drop tokens whose logit is more than N standard deviations below the largest; 0 is off;
    # default 0
    top_n_sigma: Optional[float]
    # keep the tokens of most typical information that reach this total probability; 1 is off;
    # default 1
    typical_p: Optional[float]
    # probability of dropping the most likely choices in favour of a less likely one (XTC); 0 is
    # off; default 0
    xtc_probability: Optional[float]
    # minimum probability of the choices that XTC drops; above 0.5 XTC is off; default 0.1
    xtc_threshold: Optional[float]
    # vary the temperature by up to F: lower where the model is sure, higher where it is not; 0 is
    # off; default 0
    dynatemp_range: Optional[float]
    # exponent of the entropy in the dynamic temperature; default 1
    dynatemp_exponent: Optional[float]
    # Mirostat version 1 or 2, instead of top-k, top-p, min-p and similar; 0 is off; default 0
    mirostat: Optional[int]
    # target surprise of Mirostat; default 5
    mirostat_tau: Optional[float]
    # learning rate of Mirostat; default 0.1
    mirostat_eta: Optional[float]
    # the stages that run, in this order: names (penalties;top_k;temperature) or letters (ekt);
    # others are off
    samplers: Optional[str]
    # forbid tokens that end the answer before this many tokens; default 0
    min_tokens: Optional[int]
    # continue past tokens that end an answer; default false
    ignore_end: Optional[bool]
    # maximum tokens of reasoning, after which it is closed; -1 for no limit; default -1
    reasoning_budget: Optional[int]
