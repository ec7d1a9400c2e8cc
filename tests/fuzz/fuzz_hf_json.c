/* Fuzzes the JSON files of a Hugging Face directory.  The first byte chooses which one the rest is:
 * config.json, tokenizer.json, tokenizer_config.json, generation_config.json, or added_tokens.json.
 * SPDX-License-Identifier: MIT */
#include "read/hf_config.h"
#include "read/hf_vocab.h"
#include "mem_platform.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#ifdef QSF_HAVE_YYJSON

/* What the vocabulary must keep to, whatever the files say. */
static void check_vocab(const qsf_vocab *v, uint32_t n)
{
    if (v->n_tokens != n || v->at[0]) abort();
    for (uint32_t i = 0; i < n; i++)
        if (v->at[i + 1] < v->at[i] || v->types[i] < QSF_TOKEN_NORMAL || v->types[i] > QSF_TOKEN_BYTE)
            abort();
    for (uint32_t i = 0; i < 2 * v->n_merges; i++)
        if (v->merges[i] >= n) abort();
    const int32_t ids[] = { v->bos, v->eos, v->eot, v->unk, v->pad };
    for (size_t i = 0; i < QSF_ARRAY_LEN(ids); i++)
        if (ids[i] >= (int32_t)n) abort();
    for (uint32_t i = 0; i < v->n_eog; i++)
        if (v->eog[i] < 0 || v->eog[i] >= (int32_t)n) abort();
}

static void check_config(const qsf_hparams *hp)
{
    if (!hp->n_layers || !hp->n_heads || !hp->n_kv_heads || hp->n_heads % hp->n_kv_heads || !hp->head_dim
        || !hp->n_ff)
        abort();
    if (hp->rope_dim > hp->head_dim || hp->rope_dim % 2) abort();
}

static void fuzz_config(mem_host *h, const char *text, size_t len)
{
    qsf_arena *arena;
    json_text j;
    qsf_hparams hp;
    hf_config cfg;
    qsf_error err;
    if (qsf_arena_new(&h->p, &arena, NULL)) return;
    if (!qsf_json_parse(&h->p, text, len, "config.json", &j, &err)) {
        if (!qsf_hf_config_read(j.root, arena, &hp, &cfg, &err)) {
            check_config(&hp);
            qsf_hf_check_tokens(&cfg, "config.json", 300, &err);
        }
        qsf_json_free(&j);
    }
    qsf_arena_free(arena);
}

static void fuzz_vocab(mem_host *h, const hf_config *cfg)
{
    enum { N = 300 };
    input in = { .platform = &h->p };
    hf_vocab_said said;
    qsf_error err;
    in.hp.n_vocab = N;
    qsf_format(in.hp.arch, sizeof in.hp.arch, "llama");
    if (qsf_arena_new(&h->p, &in.arena, NULL)) return;
    if (!qsf_hf_vocab_read("d", cfg, &in, &said, &err)) check_vocab(&in.vocab, N);
    qsf_arena_free(in.arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = { "d/tokenizer.json", "d/tokenizer_config.json", "d/added_tokens.json",
                                         "d/chat_template.json" };
    static const char small[] =
        "{\"added_tokens\":[{\"id\":2,\"content\":\"<s>\",\"special\":true}],"
        "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
        "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1},\"merges\":[]}}";
    static const char pieces[] = "\n\x0a\n\x03<s>\x15\0\0\0\0";
    hf_config cfg = { .type = qsf_hf_type_find("llama", NULL), .bos = -1, .eos = 7, .pad = 3000000 };
    mem_host h;
    if (!size) return 0;
    mem_host_init(&h);
    h.limit_bytes = 256 << 20;
    const uint8_t which = data[0] % 6;
    data++, size--;
    if (which >= 4) {
        char *text = malloc(size ? size : 1);       /* of exactly this size */
        json_text j;
        memcpy(text, data, size);
        fuzz_config(&h, text, size);
        if (!qsf_json_parse(&h.p, text, size, "generation_config.json", &j, NULL)) {
            qsf_hf_config_tokens(j.root, "generation_config.json", &cfg, NULL);
            qsf_json_free(&j);
        }
        free(text);
    } else {
        mem_put(&h, "d/tokenizer.json", small, sizeof small - 1);
        if (which == 2) mem_put(&h, "d/tokenizer.model", pieces, sizeof pieces - 1);
        mem_put(&h, names[which], data, size);
        fuzz_vocab(&h, &cfg);
    }
    if (h.live) abort();
    mem_host_done(&h);
    return 0;
}

#else
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) { return (void)data, (void)size, 0; }
#endif
