/* A model so small that hundreds of answers take a second: random weights, a vocabulary of single
 * characters, as a GGUF file.
 * SPDX-License-Identifier: MIT */

/** Numbers from 0 to 1, the same for the same seed (mulberry32). */
export function random(seed) {
  return () => {
    seed = seed + 0x6d2b79f5 | 0;
    let x = Math.imul(seed ^ seed >>> 15, seed | 1);
    x ^= x + Math.imul(x ^ x >>> 7, x | 61);
    return ((x ^ x >>> 14) >>> 0) / 2 ** 32;
  };
}

const U32 = 4, I32 = 5, F32 = 6, STRING = 8, ARRAY = 9;
const Q8_0 = 8;                 /* a type of tensors; 0: floats */

/** layers: each of them takes 168 KB, or with experts 64 KB and 96 for each of these, of which a
 * token takes two. codes: matrices in 8 bits, which GPUs know. */
export function tinyModel(how) {
  const {keys, tensors} = content(how);
  return gguf(keys, tensors);
}
/** The same in n files. */
export function splitModel(how, n) {
  const {keys, tensors} = content(how), size = Math.ceil(tensors.length / n);
  return Array.from({length: n}, (_, i) => gguf([...i ? [] : keys, ['split.no', U32, i], ['split.count', U32,
    n],
    ['split.tensors.count', I32, tensors.length]], tensors.slice(i * size, (i + 1) * size)));
}

/** A mixture of experts with a layer for multi-token prediction, which is mostly right: the next
 * token depends on hardly more than the last one. */
export function guessingModel({layers = 2, seed = 1, context = 512, near = 0.003, codes = false} = {}) {
  const {keys, tensors} = content({layers: layers + 1, seed, context, experts: 4}), embedding = 64;
  const last = `blk.${layers}.nextn`, ones = Float32Array.from({length: embedding}, () => 1);
  const renamed = tensors.map(({name, dims, values}) => ({dims,
    name: name.replace('ffn_norm', 'post_attention_norm'),
    values: /attn_output|ffn_down/.test(name) ? values.map(x => x * near)
      : name === 'output_norm.weight' ? values.map(() => 2.5) : values}));
  renamed.push({name: `${last}.eh_proj.weight`, dims: [2 * embedding, embedding],
    values: Float32Array.from({length: 2 * embedding ** 2}, (_, i) => (i % (2 * embedding + 1) ? 0 : 1))},
  {name: `${last}.enorm.weight`, dims: [embedding], values: ones},
  {name: `${last}.hnorm.weight`, dims: [embedding], values: ones});
  const own = keys.map(([key, ...rest]) => (key === 'general.architecture' ? [key, STRING, 'glm4moe']
    : [key.replace('llama.', 'glm4moe.'), ...rest]));
  return gguf([...own, ['glm4moe.expert_feed_forward_length', U32, 128],
    ['glm4moe.leading_dense_block_count', U32, 0], ['glm4moe.expert_gating_func', U32, 2],
    ['glm4moe.nextn_predict_layers', U32, 1]], codes ? renamed.map(coded) : renamed);
}

/* The keys and tensors of the model. */
function content({layers = 2, seed = 1, context = 256, experts = 0, codes = false} = {}) {
  const embedding = 64, forward = 128, next = random(seed);
  const tokens = ['<unk>', '<s>', '</s>', '<0x0A>', '\u2581',
    ...Array.from({length: 94}, (_, i) => String.fromCharCode(33 + i))];
  // unknown, control, byte, normal
  const types = tokens.map((_, i) => (i === 0 ? 2 : i < 3 ? 3 : i === 3 ? 6 : 1));
  const tensors = [];
  const tensor = (name, columns, rows, width, n = 1) => tensors.push({name,
    dims: [columns, ...rows ? [rows] : [], ...n > 1 ? [n] : []],
    values: Float32Array.from({length: columns * (rows ?? 1) * n},
      () => (width === undefined ? 1 : (2 * next() - 1) * width))});
  tensor('token_embd.weight', embedding, tokens.length, 1);
  for (let i = 0; i < layers; i++) {
    tensor(`blk.${i}.attn_norm.weight`, embedding);
    for (const name of ['q', 'k', 'v', 'output'])
      tensor(`blk.${i}.attn_${name}.weight`, embedding, embedding, 0.4);
    tensor(`blk.${i}.ffn_norm.weight`, embedding);
    const of = experts ? '_exps' : '';
    if (experts) tensor(`blk.${i}.ffn_gate_inp.weight`, embedding, experts, 0.3);
    for (const name of ['gate', 'up'])
      tensor(`blk.${i}.ffn_${name}${of}.weight`, embedding, forward, 0.3, experts || 1);
    tensor(`blk.${i}.ffn_down${of}.weight`, forward, embedding, 0.3, experts || 1);
  }
  tensor('output_norm.weight', embedding);
  tensor('output.weight', embedding, tokens.length, 1);
  const keys = [
    ['general.architecture', STRING, 'llama'], ['general.name', STRING, 'tiny'],
    ['llama.context_length', U32, context], ['llama.embedding_length', U32, embedding],
    ['llama.block_count', U32, layers], ['llama.feed_forward_length', U32, forward],
    ['llama.attention.head_count', U32, 2], ['llama.attention.head_count_kv', U32, 2],
    ['llama.rope.dimension_count', U32, 32], ['llama.attention.layer_norm_rms_epsilon', F32, 1e-5],
    ...experts ? [['llama.expert_count', U32, experts], ['llama.expert_used_count', U32, 2]] : [],
    ['tokenizer.ggml.model', STRING, 'llama'],
    ['tokenizer.ggml.tokens', ARRAY, tokens, STRING],
    ['tokenizer.ggml.scores', ARRAY, tokens.map(() => 0), F32],
    ['tokenizer.ggml.token_type', ARRAY, types, I32],
    ['tokenizer.ggml.bos_token_id', U32, 1], ['tokenizer.ggml.eos_token_id', U32, 2],
  ];
  return {keys, tensors: codes ? tensors.map(coded) : tensors};
}

/** A dense decoder's file in Q4_0 without its weights: the header, and the length that the file
 * would have. */
export function hollowModel({embedding, forward, layers, heads, kvHeads, vocabulary}) {
  const tensors = [], Q4_0 = 2;
  const tensor = (name, columns, rows) => tensors.push({name, dims: rows ? [columns, rows] : [columns],
    type: rows ? Q4_0 : 0, values: {buffer: new ArrayBuffer(0),
      byteLength: rows ? columns * rows / 32 * 18 : 4 * columns}});
  const keyed = embedding / heads * kvHeads;
  tensor('token_embd.weight', embedding, vocabulary);
  for (let i = 0; i < layers; i++) {
    for (const name of ['attn_norm', 'ffn_norm']) tensor(`blk.${i}.${name}.weight`, embedding);
    for (const name of ['attn_q', 'attn_output']) tensor(`blk.${i}.${name}.weight`, embedding, embedding);
    for (const name of ['attn_k', 'attn_v']) tensor(`blk.${i}.${name}.weight`, embedding, keyed);
    for (const name of ['ffn_gate', 'ffn_up']) tensor(`blk.${i}.${name}.weight`, embedding, forward);
    tensor(`blk.${i}.ffn_down.weight`, forward, embedding);
  }
  tensor('output_norm.weight', embedding);
  tensor('output.weight', embedding, vocabulary);
  const tokens = Array.from({length: vocabulary}, (_, i) => `token${i}`);
  const header = gguf([
    ['general.architecture', STRING, 'llama'], ['llama.context_length', U32, 32768],
    ['llama.embedding_length', U32, embedding], ['llama.block_count', U32, layers],
    ['llama.feed_forward_length', U32, forward], ['llama.attention.head_count', U32, heads],
    ['llama.attention.head_count_kv', U32, kvHeads],
    ['llama.rope.dimension_count', U32, embedding / heads],
    ['llama.attention.layer_norm_rms_epsilon', F32, 1e-5], ['tokenizer.ggml.model', STRING, 'llama'],
    ['tokenizer.ggml.tokens', ARRAY, tokens, STRING],
    ['tokenizer.ggml.scores', ARRAY, tokens.map(() => 0), F32],
    ['tokenizer.ggml.token_type', ARRAY, tokens.map((_, i) => (i ? 1 : 2)), I32],
    ['tokenizer.ggml.bos_token_id', U32, 1], ['tokenizer.ggml.eos_token_id', U32, 2],
  ], tensors);
  return {header, length: tensors.reduce((sum, {values: {byteLength}}) =>
    sum + byteLength + (-byteLength & 31), header.length)};
}

/** An adapter (LoRA) for all matrices of any tinyModel() with this number of layers. */
export function tinyAdapter({layers = 2, seed = 1, rank = 4, alpha = 8, architecture = 'llama'} = {}) {
  const embedding = 64, forward = 128, next = random(seed), tensors = [];
  const square = [embedding, embedding], wide = [embedding, forward];
  const shapes = {attn_q: square, attn_k: square, attn_v: square, attn_output: square, ffn_gate: wide,
    ffn_up: wide, ffn_down: [forward, embedding]};
  for (let i = 0; i < layers; i++)
    for (const [name, [columns, rows]] of Object.entries(shapes))
      for (const [part, dims] of [['a', [columns, rank]], ['b', [rank, rows]]])
        tensors.push({name: `blk.${i}.${name}.weight.lora_${part}`, dims,
          values: Float32Array.from({length: dims[0] * dims[1]}, () => (2 * next() - 1) * 0.3)});
  return gguf([['general.architecture', STRING, architecture], ['general.type', STRING, 'adapter'],
    ['general.name', STRING, `adapter ${seed}`], ['adapter.type', STRING, 'lora'],
    ['adapter.lora.alpha', F32, alpha]], tensors);
}

/* A matrix as Q8_0: of 32 values the scale as f16, here a power of two, and their codes. */
function coded({name, dims, values}) {
  if (dims.length < 2) return {name, dims, values};
  const bytes = new Uint8Array(values.length / 32 * 34), view = new DataView(bytes.buffer);
  for (let i = 0; i < values.length; i += 32) {
    const block = values.subarray(i, i + 32), at = i / 32 * 34;
    const exponent = Math.ceil(Math.log2(Math.max(...block.map(Math.abs), 2 ** -7) / 127));
    view.setUint16(at, exponent + 15 << 10, true);
    block.forEach((value, k) => view.setInt8(at + 2 + k, Math.round(value / 2 ** exponent)));
  }
  return {name, dims, type: Q8_0, values: bytes};
}

/* A file of keys [name, type, value, type of a list's elements] and tensors of floats. */
function gguf(keys, tensors) {
  const parts = [];
  let length = 0;
  const put = bytes => {
    parts.push(bytes);
    length += bytes.byteLength;
  };
  const numbers = (list, Type) => put(new Uint8Array(Type.from(list).buffer));
  const u64 = n => numbers([BigInt(n)], BigUint64Array);
  const string = text => {
    const bytes = new TextEncoder().encode(text);
    u64(bytes.length);
    put(bytes);
  };
  const one = (type, value) => (type === STRING ? string(value)
    : numbers([value], {[U32]: Uint32Array, [I32]: Int32Array, [F32]: Float32Array}[type]));
  const align = () => put(new Uint8Array(-length & 31));        // general.alignment
  put(new TextEncoder().encode('GGUF'));
  numbers([3], Uint32Array);
  u64(tensors.length);
  u64(keys.length);
  for (const [name, type, value, of] of keys) {
    string(name);
    numbers([type], Uint32Array);
    if (type !== ARRAY) one(type, value);
    else {
      numbers([of], Uint32Array);
      u64(value.length);
      for (const element of value) one(of, element);
    }
  }
  let at = 0;
  for (const {name, dims, values, type = 0} of tensors) {
    string(name);
    numbers([dims.length], Uint32Array);
    for (const n of dims) u64(n);
    numbers([type], Uint32Array);
    u64(at);
    at += values.byteLength + (-values.byteLength & 31);
  }
  align();
  for (const {values} of tensors) {
    put(new Uint8Array(values.buffer));
    align();
  }
  const file = new Uint8Array(length);
  let end = 0;
  for (const part of parts) {
    file.set(part, end);
    end += part.byteLength;
  }
  return file;
}
