/* The vocabulary of a GGUF file, with the defaults and corrections of llama.cpp.
 * SPDX-License-Identifier: MIT */
#include "model/gguf.h"
#include "model/roles.h"
#include "tokens/pretokenize.h"

/* ---- tokens ---- */

static qsf_status list_of(const gguf *g, const char *key, uint32_t n, const gguf_kv **out, qsf_error *err)
{
    *out = qsf_gguf_find(g, key);
    if (!*out) return QSF_OK;
    if (!(*out)->array || (*out)->n < n)
        return qsf_fail(err, QSF_E_CORRUPT, "%s: key \"%s\" has no value for each of the %u tokens",
                        g->s->path, key, (unsigned)n);
    return QSF_OK;
}

static int rwkv_hex(char c)
{
    const char small = (char)(c | 32);
    return c >= '0' && c <= '9' ? c - '0' : small >= 'a' && small <= 'f' ? small - 'a' + 10 : -1;
}

/* RWKV's tokens are bytes; its files have them with escapes as in C, no longer than they. */
static size_t rwkv_bytes(gguf_text t, char *out)
{
    size_t n = 0;
    for (size_t i = 0; i < t.len; i++) {
        char c = t.p[i];
        if (c == '\\' && i + 1 < t.len) {
            c = t.p[++i];
            if (c == 'n' || c == 'r' || c == 't') {
                c = c == 'n' ? '\n' : c == 'r' ? '\r' : '\t';
            } else if (c == 'x' && i + 2 < t.len && rwkv_hex(t.p[i + 1]) >= 0
                       && rwkv_hex(t.p[i + 2]) >= 0) {
                c = (char)(rwkv_hex(t.p[i + 1]) << 4 | rwkv_hex(t.p[i + 2]));
                i += 2;
            }
        }
        out[n++] = c;
    }
    return n;
}

/* Copies the tokens' texts; list[n] gets a view of each. */
static qsf_status read_texts(gguf *g, const gguf_kv *kv, gguf_text *list, qsf_error *err)
{
    qsf_vocab *v = &g->s->vocab;
    const uint32_t n = v->n_tokens;
    char empty[32];
    uint64_t total = 0;
    const uint8_t *at = kv->data;
    for (uint32_t i = 0; i < n; i++) {
        const size_t len = qsf_gguf_next_string(&at).len;
        total += len ? len : sizeof empty;
    }
    if (total > UINT32_MAX)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: %llu bytes of tokens", g->s->path,
                        (unsigned long long)total);
    if (!(v->text = qsf_arena_alloc(g->s->arena, total + 1, "tokens", err))) return QSF_E_MEMORY;
    if (!(v->at = qsf_arena_array(g->s->arena, (uint64_t)n + 1, sizeof *v->at, "tokens", err)))
        return QSF_E_MEMORY;
    at = kv->data;
    for (uint32_t i = 0; i < n; i++) {
        gguf_text t = qsf_gguf_next_string(&at);
        if (!t.len) t = (gguf_text){ empty, qsf_format(empty, sizeof empty, "[EMPTY_%u]", (unsigned)i) };
        if (v->kind == QSF_VOCAB_RWKV) t.len = rwkv_bytes(t, v->text + v->at[i]);
        else memcpy(v->text + v->at[i], t.p, t.len);
        list[i] = (gguf_text){ v->text + v->at[i], t.len };
        v->at[i + 1] = v->at[i] + (uint32_t)t.len;
    }
    return QSF_OK;
}

static qsf_status read_types(gguf *g, qsf_error *err)
{
    qsf_vocab *v = &g->s->vocab;
    const gguf_kv *kv;
    const qsf_status st = list_of(g, "tokenizer.ggml.token_type", v->n_tokens, &kv, err);
    if (st) return st;
    if (!(v->types = qsf_arena_alloc(g->s->arena, v->n_tokens, "tokens", err))) return QSF_E_MEMORY;
    for (uint32_t i = 0; i < v->n_tokens; i++) {
        int64_t type = QSF_TOKEN_NORMAL;
        if (kv && !qsf_gguf_integer(kv, i, &type))
            return qsf_fail(err, QSF_E_CORRUPT, "%s: tokenizer.ggml.token_type is not a list of numbers",
                            g->s->path);
        v->types[i] = type >= QSF_TOKEN_NORMAL && type <= QSF_TOKEN_BYTE ? (uint8_t)type : QSF_TOKEN_UNUSED;
    }
    return QSF_OK;
}

static qsf_status read_scores(gguf *g, qsf_error *err)
{
    qsf_vocab *v = &g->s->vocab;
    const gguf_kv *kv;
    double score;
    const qsf_status st = list_of(g, "tokenizer.ggml.scores", v->n_tokens, &kv, err);
    if (st || (v->kind != QSF_VOCAB_SPM && v->kind != QSF_VOCAB_UGM && v->kind != QSF_VOCAB_PLAMO))
        return st;
    if (!(v->scores = qsf_arena_array(g->s->arena, v->n_tokens, sizeof *v->scores, "tokens", err)))
        return QSF_E_MEMORY;
    for (uint32_t i = 0; kv && i < v->n_tokens; i++) {
        if (!qsf_gguf_number(kv, i, &score))
            return qsf_fail(err, QSF_E_CORRUPT, "%s: tokenizer.ggml.scores is not a list of numbers",
                            g->s->path);
        v->scores[i] = score > -FLT_MAX && score < FLT_MAX ? (float)score : 0;
    }
    return QSF_OK;
}

/* "left right" -> ids; a merge of pieces that are not tokens can never happen and is skipped. */
static qsf_status read_merges(gguf *g, const gguf_names *names, qsf_error *err)
{
    qsf_vocab *v = &g->s->vocab;
    const gguf_kv *kv = qsf_gguf_find(g, "tokenizer.ggml.merges");
    if (!kv) return qsf_fail(err, QSF_E_CORRUPT, "%s: key \"tokenizer.ggml.merges\" is missing", g->s->path);
    if (!kv->array || kv->type != GGUF_STRING || kv->n > UINT32_MAX / 2)
        return qsf_fail(err, QSF_E_CORRUPT, "%s: tokenizer.ggml.merges is not a list of strings", g->s->path);
    if (!(v->merges = qsf_arena_array(g->s->arena, kv->n, 2 * sizeof *v->merges, "merges", err)))
        return QSF_E_MEMORY;
    const uint8_t *at = kv->data;
    for (uint64_t i = 0; i < kv->n; i++) {
        const gguf_text t = qsf_gguf_next_string(&at);
        /* the left piece has at least one byte */
        const char *space = t.len > 1 ? memchr(t.p + 1, ' ', t.len - 1) : NULL;
        if (!space) continue;
        const size_t left = (size_t)(space - t.p);
        const int64_t a = qsf_gguf_name_find(names, t.p, left),
            b = qsf_gguf_name_find(names, space + 1, t.len - left - 1);
        if (a < 0 || b < 0) continue;
        v->merges[2 * v->n_merges] = (uint32_t)a;
        v->merges[2 * v->n_merges + 1] = (uint32_t)b;
        v->n_merges++;
    }
    return QSF_OK;
}

/* ---- special tokens ---- */

/* The file's id; one out of range is as good as none, as in llama.cpp. */
static qsf_status read_id(const gguf *g, const char *key, int32_t *id, qsf_error *err)
{
    const qsf_vocab *v = &g->s->vocab;
    const gguf_kv *kv = qsf_gguf_find(g, key);
    int64_t n;
    if (*id >= 0 && (uint32_t)*id >= v->n_tokens) *id = -1;
    if (!kv) return QSF_OK;
    if (kv->array || !qsf_gguf_integer(kv, 0, &n))
        return qsf_fail(err, QSF_E_CORRUPT, "%s: key \"%s\" is not a token", g->s->path, key);
    if (n >= 0 && n < (int64_t)v->n_tokens) *id = (int32_t)n;
    return QSF_OK;
}

static void add_end(qsf_vocab *v, int64_t id)
{
    if (id < 0 || id == v->eos || id == v->eot || v->n_eog == QSF_ARRAY_LEN(v->eog)) return;
    for (uint32_t i = 0; i < v->n_eog; i++)
        if (v->eog[i] == id) return;
    v->eog[v->n_eog++] = (int32_t)id;
}

static int64_t token_of(const gguf_names *names, const char *text)
{
    return qsf_gguf_name_find(names, text, strlen(text));
}

/* Files often do not mark the tokens that end a turn and those that users should not see, so these
 * are found by their text. */
static qsf_status find_ends(const gguf *g, const gguf_names *names, qsf_error *err)
{
    /* the first of these that exists ends a turn, if the file does not name a token for that */
    static const char *const turns[] = {
        "<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "<|end_of_text|>",
        "<EOT>", "_<EOT>", "[EOT]", "<\357\275\234end\342\226\201of\342\226\201sentence\357\275\234>",
        "<end_of_utterance>"
    };
    static const char *const others[] = {
        "<|return|>", "<|call|>", "<|flush|>", "<|calls|>", "</s>", "<|eom_id|>", "[EOS]", "<eos>",
        "<turn|>", "<|tool_response>", "[e~["
    };
    /* fill-in-the-middle tokens: the file's key, usual texts */
    static const char *const fill[][2] = {
        { "tokenizer.ggml.fim_pad_token_id", "<|fim_pad|>\0<fim-pad>\0<fim_pad>\0<PAD>\0[PAD]\0" },
        { "tokenizer.ggml.fim_rep_token_id",
          "<|fim_repo|>\0<|repo_name|>\0<fim-repo>\0<REPO>\0<reponame>\0" },
        { "tokenizer.ggml.fim_sep_token_id", "<|file_sep|>\0" },
        { "tokenizer.ggml.fim_pre_token_id",
          "<|fim_prefix|>\0<fim-prefix>\0<fim_prefix>\0<PRE>\0\xe2\x96\x81<PRE>\0" },
        { "tokenizer.ggml.fim_suf_token_id",
          "<|fim_suffix|>\0<fim-suffix>\0<fim_suffix>\0<SUF>\0\xe2\x96\x81<SUF>\0" },
        { "tokenizer.ggml.fim_mid_token_id",
          "<|fim_middle|>\0<fim-middle>\0<fim_middle>\0<MID>\0\xe2\x96\x81<MID>\0" },
    };
    /* the first three end an answer; the others are only control tokens */
    enum { FILL_ENDS = 3 };
    qsf_vocab *v = &g->s->vocab;
    int32_t eom = -1;
    qsf_status st;
    const int64_t tool = token_of(names, "<|tool_response>");

    for (size_t i = 0; i < QSF_ARRAY_LEN(turns) && v->eot < 0; i++)
        v->eot = (int32_t)token_of(names, turns[i]);
    if ((st = read_id(g, "tokenizer.ggml.eom_token_id", &eom, err))) return st;
    add_end(v, eom);
    for (size_t i = 0; i < QSF_ARRAY_LEN(fill); i++) {
        int32_t id = -1;
        if ((st = read_id(g, fill[i][0], &id, err))) return st;
        for (const char *t = fill[i][1]; id < 0 && *t; t += strlen(t) + 1)
            if ((id = (int32_t)token_of(names, t)) >= 0) v->types[id] = QSF_TOKEN_CONTROL;
        if (i < FILL_ENDS) add_end(v, id);
    }
    for (size_t i = 0; i < QSF_ARRAY_LEN(turns) + QSF_ARRAY_LEN(others); i++) {
        const char *text = i < QSF_ARRAY_LEN(turns) ? turns[i] : others[i - QSF_ARRAY_LEN(turns)];
        const int64_t id = token_of(names, text);
        /* in a vocabulary with <|tool_response>, </s> is an ordinary token */
        if (id < 0 || (tool >= 0 && !strcmp(text, "</s>"))) continue;
        v->types[id] = QSF_TOKEN_CONTROL;
        add_end(v, id);
    }
    return QSF_OK;
}

static qsf_status read_specials(const gguf *g, const gguf_names *names, qsf_error *err)
{
    /* llama.cpp's defaults */
    static const struct { int8_t bos, eos, unk, pad, sep; } defaults[QSF_VOCAB_KINDS] = {
        [QSF_VOCAB_NONE] = { -1, -1, -1, -1, -1 }, [QSF_VOCAB_BPE] = { -1, -1, -1, -1, -1 },
        [QSF_VOCAB_SPM] = { 1, 2, 0, -1, -1 },     [QSF_VOCAB_WPM] = { 101, -1, 100, 0, 102 },
        [QSF_VOCAB_UGM] = { -1, 1, 2, 0, -1 },     [QSF_VOCAB_RWKV] = { -1, -1, -1, -1, -1 },
        [QSF_VOCAB_PLAMO] = { 1, 2, 0, 3, -1 },
    };
    qsf_vocab *v = &g->s->vocab;
    const bool spm = v->kind == QSF_VOCAB_SPM, wpm = v->kind == QSF_VOCAB_WPM;
    const qsf_pretokenizer *pre = v->kind == QSF_VOCAB_BPE ? qsf_pretokenizer_find(v->pre) : NULL;
    const unsigned rules = pre ? qsf_pretokenizer_rules(pre) : 0;
    qsf_status st;
    v->bos = defaults[v->kind].bos;
    v->eos = defaults[v->kind].eos;
    v->unk = defaults[v->kind].unk;
    v->pad = defaults[v->kind].pad;
    v->sep = defaults[v->kind].sep;
    v->add_space_prefix = spm;
    v->add_bos = spm || (rules & QSF_PRE_BEGIN);
    v->add_eos = v->kind == QSF_VOCAB_UGM;
    if ((st = read_id(g, "tokenizer.ggml.bos_token_id", &v->bos, err))
        || (st = read_id(g, "tokenizer.ggml.eos_token_id", &v->eos, err)) ||
        (st = read_id(g, "tokenizer.ggml.eot_token_id", &v->eot, err))
        || (st = read_id(g, "tokenizer.ggml.unknown_token_id", &v->unk, err)) ||
        (st = read_id(g, "tokenizer.ggml.seperator_token_id", &v->sep, err)) ||
        (st = read_id(g, "tokenizer.ggml.padding_token_id", &v->pad, err)) ||
        (st = qsf_gguf_bool(g, "tokenizer.ggml.add_bos_token", &v->add_bos, err)) ||
        (st = qsf_gguf_bool(g, "tokenizer.ggml.add_eos_token", &v->add_eos, err)) ||
        (st = qsf_gguf_bool(g, "tokenizer.ggml.add_space_prefix", &v->add_space_prefix, err)) ||
        (st = qsf_gguf_bool(g, "tokenizer.ggml.remove_extra_whitespaces", &v->merge_spaces, err))) return st;
    if (wpm) v->add_bos = v->add_sep = true;           /* whatever the file says, as in llama.cpp */
    if (rules & QSF_PRE_MARKS && rules & QSF_PRE_BEGIN) v->add_bos = true;
    v->lowercase = wpm;
    if ((st = qsf_gguf_bool(g, "tokenizer.ggml.normalizer.lowercase", &v->lowercase, err))) return st;
    v->strip_accents = v->lowercase;
    if ((st = qsf_gguf_bool(g, "tokenizer.ggml.normalizer.strip_accents", &v->strip_accents, err))) return st;
    if ((st = find_ends(g, names, err))) return st;
    if (v->bos < 0) v->add_bos = false;
    if (v->eos < 0) v->add_eos = false;
    if (v->sep < 0) v->add_sep = false;
    return QSF_OK;
}

/* ---- the whole vocabulary ---- */

/* Unigram's normaliser; what is in it is checked where it is used. */
static qsf_status read_charsmap(const gguf *g, qsf_error *err)
{
    qsf_vocab *v = &g->s->vocab;
    const gguf_kv *kv = qsf_gguf_find(g, "tokenizer.ggml.precompiled_charsmap");
    if (!kv || v->kind != QSF_VOCAB_UGM) return QSF_OK;
    if (!kv->array || (kv->type != GGUF_U8 && kv->type != GGUF_I8))
        return qsf_fail(err, QSF_E_CORRUPT, "%s: tokenizer.ggml.precompiled_charsmap is not a list of bytes",
                        g->s->path);
    return qsf_vocab_charsmap(v, g->s->arena, kv->data, kv->n, g->s->path, err);
}

/* The template, and those that the file has by name. */
static qsf_status read_templates(gguf *g, qsf_error *err)
{
    qsf_vocab *v = &g->s->vocab;
    const gguf_kv *names = qsf_gguf_find(g, "tokenizer.chat_templates");
    const bool listed = names && names->array && names->type == GGUF_STRING;
    const uint8_t *at = listed ? names->data : NULL;
    const uint64_t n = listed ? QSF_MIN(names->n, (uint64_t)64) : 0;
    for (uint64_t i = 0; i <= n + 1; i++) {
        char key[96] = "tokenizer.chat_template";
        gguf_text name = { "default", 7 }, text = { NULL, 0 };
        if (i) {
            name = i <= n ? qsf_gguf_next_string(&at) : (gguf_text){ "tool_use", 8 };
            qsf_format(key, sizeof key, "tokenizer.chat_template.%.*s", (int)QSF_MIN(name.len, 64), name.p);
        }
        qsf_status st = qsf_gguf_string(g, key, &text, err);
        if (!st && text.len) st = qsf_vocab_template(v, g->s->arena, name.p, name.len, text.p, text.len, err);
        if (st) return st;
    }
    return QSF_OK;
}

static qsf_status read_kind(const gguf *g, qsf_error *err)
{
    qsf_vocab *v = &g->s->vocab;
    gguf_text model = { "none", 4 }, pre = { "default", 7 };
    qsf_status st;
    if ((st = qsf_gguf_string(g, "tokenizer.ggml.model", &model, err))
        || (st = qsf_gguf_string(g, "tokenizer.ggml.pre", &pre, err)))
        return st;
    static const struct { const char *model; uint8_t kind; } models[] = {
        { "gpt2", QSF_VOCAB_BPE },  { "gemma4", QSF_VOCAB_BPE }, { "whitespace", QSF_VOCAB_BPE },
        { "llama", QSF_VOCAB_SPM }, { "bert", QSF_VOCAB_WPM },   { "t5", QSF_VOCAB_UGM },
        { "rwkv", QSF_VOCAB_RWKV }, { "plamo2", QSF_VOCAB_PLAMO },
        { "none", QSF_VOCAB_NONE }, { "no_vocab", QSF_VOCAB_NONE },
    };
    size_t i = 0;
    while (i < QSF_ARRAY_LEN(models) && !gguf_text_is(model, models[i].model)) i++;
    if (i == QSF_ARRAY_LEN(models))
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: tokenizer \"%.*s\" is unknown to this version, which "
                        "supports gpt2, llama, bert, t5, gemma4, rwkv, plamo2 and whitespace",
                        g->s->path, (int)QSF_MIN(model.len, 40), model.p);
    v->kind = models[i].kind;
    if (gguf_text_is(model, "gemma4")) pre = model;
    if (pre.len >= sizeof v->pre)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: pre-tokenizer \"%.*s\" is unknown to this version",
                        g->s->path, 40, pre.p);
    memcpy(v->pre, pre.p, pre.len);
    return QSF_OK;
}

qsf_status qsf_gguf_vocab(gguf *g, qsf_error *err)
{
    qsf_vocab *v = &g->s->vocab;
    gguf_names names;
    qsf_status st;

    v->bos = v->eos = v->eot = v->unk = v->pad = v->sep = -1;
    if ((st = read_kind(g, err))) return st;
    if ((st = read_templates(g, err))) return st;
    if (v->kind == QSF_VOCAB_NONE) return qsf_gguf_u32(g, "%s.vocab_size", false, &v->n_tokens, err);

    const gguf_kv *kv = qsf_gguf_find(g, "tokenizer.ggml.tokens");
    if (!kv) return qsf_fail(err, QSF_E_CORRUPT, "%s: key \"tokenizer.ggml.tokens\" is missing", g->s->path);
    if (!kv->array || kv->type != GGUF_STRING || !kv->n || kv->n > INT32_MAX)
        return qsf_fail(err, QSF_E_CORRUPT, "%s: tokenizer.ggml.tokens is not a list of strings", g->s->path);
    v->n_tokens = (uint32_t)kv->n;
    gguf_text *list = qsf_arena_array(g->tmp, v->n_tokens, sizeof *list, "tokens", err);
    if (!list) return QSF_E_MEMORY;
    if ((st = read_texts(g, kv, list, err)) || (st = read_types(g, err)) || (st = read_scores(g, err)))
        return st;
    if ((st = qsf_gguf_names(g->tmp, g->s->path, list, v->n_tokens, &names, NULL, err))) return st;
    if (v->kind == QSF_VOCAB_BPE && (st = read_merges(g, &names, err))) return st;
    if ((st = read_charsmap(g, err))) return st;
    return read_specials(g, &names, err);
}

qsf_status qsf_gguf_vocab_size(gguf *g, qsf_error *err)
{
    qsf_source *s = g->s;
    const char *embd = qsf_role_of(QSF_K_TOKEN_EMBD)->gguf;
    s->hp.n_vocab = s->vocab.n_tokens;
    for (uint32_t i = 0; !s->hp.n_vocab && i < g->n_tensors; i++)
        if (gguf_text_is(g->tensors[i].name, embd) && g->tensors[i].dims[1] <= INT32_MAX)
            s->hp.n_vocab = (uint32_t)g->tensors[i].dims[1];
    if (!s->hp.n_vocab && !s->vocab_only)
        return qsf_fail(err, QSF_E_CORRUPT, "%s: no vocabulary and no tensor \"%s\"", s->path, embd);
    return QSF_OK;
}
