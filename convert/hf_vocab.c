/* Gathers a vocabulary from the tokenizer files of a Hugging Face directory.
 * SPDX-License-Identifier: MIT */
#include "hf_tokenizer.h"

qsf_status vocab_build_new(vocab_build *b, const qsf_platform *p, qsf_arena *arena, uint32_t n, qsf_vocab *out, qsf_error *err)
{
    memset(b, 0, sizeof *b);
    b->platform = p;
    b->arena = arena;
    b->out = out;
    b->n = n;
    b->tokens = qsf_alloc_array(p, n, sizeof *b->tokens, "vocabulary", err);
    return b->tokens ? QSF_OK : QSF_E_MEMORY;
}

void vocab_build_free(vocab_build *b)
{
    if (b->tokens) qsf_dealloc(b->platform, b->tokens, (uint64_t)b->n * sizeof *b->tokens);
    if (b->slots) qsf_dealloc(b->platform, b->slots, (uint64_t)b->n_slots * sizeof *b->slots);
    b->tokens = NULL;
    b->slots = NULL;
}

static qsf_status vocab_beyond(const vocab_build *b, uint64_t id, const char *text, qsf_error *err)
{
    return qsf_fail(err, QSF_E_CORRUPT, "token %llu \"%.40s\" is beyond the embedding of %u rows",
                    (unsigned long long)id, text, (unsigned)b->n);
}

qsf_status vocab_add(vocab_build *b, uint64_t id, const char *text, size_t len, uint8_t type, float score, qsf_error *err)
{
    if (id >= b->n) return vocab_beyond(b, id, text, err);
    if (b->tokens[id].text) return qsf_fail(err, QSF_E_CORRUPT, "token %llu is there twice", (unsigned long long)id);
    if (len > UINT16_MAX) return qsf_fail(err, QSF_E_CORRUPT, "token %llu has %zu bytes", (unsigned long long)id, len);
    b->tokens[id] = (vocab_token){ .text = text, .len = (uint32_t)len, .type = type, .score = score };
    return QSF_OK;
}

static bool vocab_begins(const char *s, size_t len, const char *with) { return len >= strlen(with) && !memcmp(s, with, strlen(with)); }
static bool vocab_ends(const char *s, size_t len, const char *with)
{
    const size_t n = strlen(with);
    return len >= n && !memcmp(s + len - n, with, n);
}

/* Some models leave tokens that steer them unmarked: these are never text. */
static bool vocab_looks_special(const char *s, size_t len)
{
    static const char *const names[] = { "<pad>", "<mask>", "<2mass>", "[@BOS@]" };
    for (size_t i = 0; i < QSF_ARRAY_LEN(names); i++)
        if (len == strlen(names[i]) && !memcmp(s, names[i], len)) return true;
    return (vocab_begins(s, len, "<|") && vocab_ends(s, len, "|>")) ||
           (vocab_begins(s, len, "<\xef\xbd\x9c") && vocab_ends(s, len, "\xef\xbd\x9c>")) ||      /* full-width bars: DeepSeek */
           (vocab_begins(s, len, "<unused") && vocab_ends(s, len, ">"));
}

/* A user's token is looked for in the text as it is, so SentencePiece's U+2581 becomes the space that it stands for. */
static qsf_status vocab_user_text(vocab_build *b, const char *text, size_t len, vocab_token *t, qsf_error *err)
{
    static const char mark[] = "\xe2\x96\x81";
    char *copy = qsf_arena_alloc(b->arena, len + 1, "token", err);
    uint32_t n = 0;
    if (!copy) return QSF_E_MEMORY;
    for (size_t i = 0; i < len; ) {
        const bool space = len - i >= 3 && !memcmp(text + i, mark, 3);
        copy[n++] = space ? ' ' : text[i];
        i += space ? 3 : 1;
    }
    t->text = copy;
    t->len = n;
    return QSF_OK;
}

qsf_status vocab_add_special(vocab_build *b, uint64_t id, const char *text, size_t len, bool special, qsf_error *err)
{
    if (len > UINT16_MAX) return qsf_fail(err, QSF_E_CORRUPT, "added token %llu has %zu bytes", (unsigned long long)id, len);
    if (id >= b->n && !special && !vocab_looks_special(text, len)) return vocab_beyond(b, id, text, err);
    if (id >= b->n) return b->ignored++, QSF_OK;
    vocab_token *t = &b->tokens[id];
    t->score = -1000;
    if (special || vocab_looks_special(text, len)) {
        *t = (vocab_token){ .text = text, .len = (uint32_t)len, .type = QSF_TOKEN_CONTROL, .score = -1000 };
        return QSF_OK;
    }
    t->type = QSF_TOKEN_USER;
    return vocab_user_text(b, text, len, t, err);
}

/* ---- finding by text --------------------------------------------------------------------------------------------- */

/* FNV-1a, continued over the parts of a text. */
static uint64_t vocab_hash(uint64_t h, const char *s, size_t len)
{
    for (size_t i = 0; i < len; i++) h = (h ^ (uint8_t)s[i]) * 0x100000001b3u;
    return h;
}
static uint64_t vocab_mix(uint64_t h) { return h ^ h >> 29; }

qsf_status vocab_index(vocab_build *b, qsf_error *err)
{
    uint32_t n = 16;
    while (n < b->n * (uint64_t)2) n *= 2;          /* b->n is at most 2^24 */
    b->slots = qsf_alloc_array(b->platform, n, sizeof *b->slots, "vocabulary index", err);
    if (!b->slots) return QSF_E_MEMORY;
    b->n_slots = n;
    for (uint32_t id = 0; id < b->n; id++) {
        const vocab_token *t = &b->tokens[id];
        if (!t->text || vocab_find2(b, t->text, t->len, "", 0) >= 0) continue;      /* of equal texts the first counts */
        uint64_t at = vocab_mix(vocab_hash(0xcbf29ce484222325u, t->text, t->len)) & (n - 1);
        while (b->slots[at]) at = (at + 1) & (n - 1);
        b->slots[at] = id + 1;
    }
    return QSF_OK;
}

int32_t vocab_find2(const vocab_build *b, const char *a, size_t alen, const char *c, size_t clen)
{
    const uint64_t h = vocab_hash(vocab_hash(0xcbf29ce484222325u, a, alen), c, clen);
    for (uint64_t at = vocab_mix(h) & (b->n_slots - 1); b->slots[at]; at = (at + 1) & (b->n_slots - 1)) {
        const vocab_token *t = &b->tokens[b->slots[at] - 1];
        if (t->len == alen + clen && !memcmp(t->text, a, alen) && !memcmp(t->text + alen, c, clen)) return (int32_t)(b->slots[at] - 1);
    }
    return -1;
}

int32_t vocab_scan(const vocab_build *b, const char *text, size_t len)
{
    for (uint32_t id = 0; id < b->n; id++) {
        const vocab_token *t = &b->tokens[id];
        if (t->text && t->len == len && !memcmp(t->text, text, len)) return (int32_t)id;
    }
    return -1;
}

/* ---- the result -------------------------------------------------------------------------------------------------- */

qsf_status vocab_finish(vocab_build *b, bool with_scores, qsf_error *err)
{
    qsf_vocab *v = b->out;
    uint64_t total = 0;
    char pad[24];
    for (uint32_t id = 0; id < b->n; id++)
        total += b->tokens[id].text ? b->tokens[id].len : qsf_format(pad, sizeof pad, "[PAD%u]", (unsigned)id);
    if (total > UINT32_MAX) return qsf_fail(err, QSF_E_CORRUPT, "the vocabulary's texts have more than 4 GB");
    v->n_tokens = b->n;
    v->text = qsf_arena_alloc(b->arena, total + 1, "vocabulary", err);
    v->at = qsf_arena_array(b->arena, (uint64_t)b->n + 1, sizeof *v->at, "vocabulary", err);
    v->types = qsf_arena_alloc(b->arena, b->n, "vocabulary", err);
    if (with_scores) v->scores = qsf_arena_array(b->arena, b->n, sizeof *v->scores, "vocabulary", err);
    if (!v->text || !v->at || !v->types || (with_scores && !v->scores)) return QSF_E_MEMORY;
    for (uint32_t id = 0; id < b->n; id++) {
        const vocab_token *t = &b->tokens[id];
        const size_t len = t->text ? t->len : qsf_format(pad, sizeof pad, "[PAD%u]", (unsigned)id);
        memcpy(v->text + v->at[id], t->text ? t->text : pad, len);
        v->at[id + 1] = v->at[id] + (uint32_t)len;
        v->types[id] = t->text ? t->type : QSF_TOKEN_UNUSED;
        if (with_scores) v->scores[id] = t->text ? t->score : -10000;
    }
    return QSF_OK;
}

#ifdef QSF_HAVE_YYJSON

/* ---- which files ------------------------------------------------------------------------------------------------- */

#define VOCAB_CONFIG "tokenizer_config.json"
enum { VOCAB_MAX_FILE = 256 << 20 };

/* The files a tokenizer may be spread over; those that are not there stay empty. */
typedef struct vocab_files {
    char     *spm_text, *json_text, *config_text, *added_text;
    uint64_t  spm_len, json_len, config_len, added_len;
    json_text json, config, added;
} vocab_files;

static qsf_status vocab_read_file(const qsf_platform *p, const char *dir, const char *name, char **text, uint64_t *len,
                                  json_text *j, qsf_error *err)
{
    qsf_status st = hf_read_text(p, dir, name, VOCAB_MAX_FILE, text, len, err);
    if (st == QSF_E_NOT_FOUND) return QSF_OK;
    if (st || !j) return st;
    st = json_parse(p, *text, (size_t)*len, name, j, err);
    return st ? st : json_check_object(j->root, name, err);
}

static void vocab_files_free(const qsf_platform *p, vocab_files *f)
{
    json_free(&f->json);
    json_free(&f->config);
    json_free(&f->added);
    if (f->spm_text) qsf_dealloc(p, f->spm_text, f->spm_len + 1);
    if (f->json_text) qsf_dealloc(p, f->json_text, f->json_len + 1);
    if (f->config_text) qsf_dealloc(p, f->config_text, f->config_len + 1);
    if (f->added_text) qsf_dealloc(p, f->added_text, f->added_len + 1);
}

/* added_tokens.json: {"text": id}; tokenizer_config.json: {"added_tokens_decoder": {"id": {"content": ...}}}. */
static qsf_status vocab_added_files(vocab_build *b, const vocab_files *f, yyjson_val *decoder, qsf_error *err)
{
    size_t i, n;
    yyjson_val *key, *val;
    qsf_status st;
    json_members(f->added.root, i, n, key, val) {
        uint64_t id;
        size_t len;
        const char *text = json_str(key, &len);
        if (!text || !json_u64(val, &id)) return qsf_fail(err, QSF_E_CORRUPT, "added_tokens.json: an entry is no text with an id");
        if ((st = vocab_add_special(b, id, text, len, false, err))) return st;
    }
    json_members(decoder, i, n, key, val) {
        size_t len = 0, digits = 0;
        const char *text = json_str(json_get(val, "content"), &len), *s = json_str(key, NULL);
        uint64_t id = 0;
        bool special;
        while (s && s[digits] >= '0' && s[digits] <= '9' && digits < 10) id = id * 10 + (uint64_t)(s[digits++] - '0');
        if (!text || !digits || s[digits])
            return qsf_fail(err, QSF_E_CORRUPT,
                            VOCAB_CONFIG ": an entry of added_tokens_decoder is no token");
        if ((st = json_get_bool(val, VOCAB_CONFIG, "special", false, &special, err)) ||
            (st = vocab_add_special(b, id, text, len, special, err))) return st;
    }
    return QSF_OK;
}

static bool vocab_is_gemma(const input *in) { return !strncmp(in->hp.arch, "gemma", 5); }

/* A space in front of the text: what tokenizer.json says, else tokenizer_config.json, else the SentencePiece model. */
static qsf_status vocab_space_prefix(const vocab_files *f, const spm_info *info, const input *in, qsf_vocab *v, qsf_error *err)
{
    if (!f->spm_text) return QSF_OK;            /* tokenizer.json alone: hf_tokenizer_json has said it */
    if (vocab_is_gemma(in)) return v->add_space_prefix = false, QSF_OK;
    return json_get_bool(f->config.root, VOCAB_CONFIG, "add_prefix_space", info->add_dummy_prefix,
                         &v->add_space_prefix, err);
}

static qsf_status vocab_from_files(const char *dir, const vocab_files *f, const hf_config *cfg, input *in, vocab_build *b, qsf_error *err)
{
    spm_info info = { .add_dummy_prefix = true, .unk = -1, .bos = -1, .eos = -1, .pad = -1 };
    qsf_vocab *v = &in->vocab;
    yyjson_val *decoder;
    qsf_status st = json_get_obj(f->config.root, VOCAB_CONFIG, "added_tokens_decoder", &decoder, err);
    if (st) return st;
    v->bos = v->eos = v->eot = v->unk = v->pad = -1;
    if (f->spm_text) {
        v->kind = QSF_VOCAB_SPM;
        qsf_format(v->pre, sizeof v->pre, "default");
        if ((st = spm_read(b, f->spm_text, (size_t)f->spm_len, &info, err))) return st;
        v->unk = info.unk, v->bos = info.bos, v->eos = info.eos, v->pad = info.pad;
        if ((st = vocab_added_files(b, f, decoder, err))) return st;
    }
    if (f->json.root && (st = hf_tokenizer_json(b, f->json.root, f->spm_text != NULL, err))) return st;
    if ((st = vocab_space_prefix(f, &info, in, v, err)) ||
        (st = hf_special_tokens(b, f->json.root, f->config.root, cfg, err)) ||
        (st = hf_chat_template(b, dir, f->config.root, err))) return st;
    return vocab_finish(b, v->kind == QSF_VOCAB_SPM, err);
}

qsf_status hf_vocab_read(const char *dir, const hf_config *cfg, input *in, uint32_t *ignored, qsf_error *err)
{
    const qsf_platform *p = in->platform;
    vocab_files f = { 0 };
    vocab_build b = { 0 };
    qsf_status st;
    if (!(st = vocab_read_file(p, dir, "tokenizer.model", &f.spm_text, &f.spm_len, NULL, err)) &&
        !(st = vocab_read_file(p, dir, "tokenizer.json", &f.json_text, &f.json_len, &f.json, err)) &&
        !(st = vocab_read_file(p, dir, VOCAB_CONFIG, &f.config_text, &f.config_len, &f.config, err)) &&
        !(st = vocab_read_file(p, dir, "added_tokens.json", &f.added_text, &f.added_len, &f.added, err))) {
        if (!f.spm_text && !f.json_text) st = qsf_fail(err, QSF_E_NOT_FOUND, "%s: neither tokenizer.json nor tokenizer.model", dir);
        else if (!(st = vocab_build_new(&b, p, in->arena, in->hp.n_vocab, &in->vocab, err))) st = vocab_from_files(dir, &f, cfg, in, &b, err);
    }
    *ignored = b.ignored;
    vocab_build_free(&b);
    vocab_files_free(p, &f);
    return st;
}

#undef VOCAB_CONFIG
#endif
