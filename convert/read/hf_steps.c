/* Stores a tokenizer.json as steps: its model, added tokens, post-processor and decoder.
 * SPDX-License-Identifier: MIT */
#include "read/hf_sets.h"
#include "text/unicode.h"

#ifdef QSF_HAVE_YYJSON

#define FILE_NAME "tokenizer.json"

static void steps_check(steps_build *s, qsf_status st)
{
    if (!s->st) s->st = st;
}

static const char *steps_type(yyjson_val *v)
{
    const char *type = qsf_json_get_str(v, "type");
    return type ? type : "(none)";
}

/* ---- models ---------------------------------------------------------------------------------- */

static void steps_token(steps_build *s, uint64_t id, const char *text, size_t len, float score)
{
    const bool byte = s->flags & STEPS_BYTE_FALLBACK && qsf_vocab_is_byte(text, len);
    steps_check(s, qsf_vocab_add(s->b, id, text, len, byte ? QSF_TOKEN_BYTE : QSF_TOKEN_NORMAL, score,
                                 s->err));
}

static void steps_vocab(steps_build *s, yyjson_val *model)
{
    size_t i, n = 0, len;
    yyjson_val *key, *val;
    json_members(qsf_json_get(model, "vocab"), i, n, key, val) {
        const char *text = qsf_json_str(key, &len);
        uint64_t id;
        if (s->st) return;
        if (!text || !qsf_json_u64(val, &id))
            s->st = qsf_fail(s->err, QSF_E_CORRUPT,
                             FILE_NAME ": entry %zu of the vocabulary is not a string with an id", i);
        else steps_token(s, id, text, len, 0);
    }
    if (!n && !s->st) s->st = qsf_fail(s->err, QSF_E_CORRUPT, FILE_NAME ": no vocabulary");
    steps_check(s, s->st ? s->st : qsf_vocab_index(s->b, s->err));
}

static void steps_unk(steps_build *s, yyjson_val *model)
{
    const char *unk = qsf_json_get_str(model, "unk_token");
    if (!s->st && unk) s->unk = qsf_vocab_find2(s->b, unk, strlen(unk), "", 0);
}

static void steps_bpe(steps_build *s, yyjson_val *model)
{
    const struct { const char *key; uint32_t flag; } flags[] = {
        { "byte_fallback", STEPS_BYTE_FALLBACK }, { "fuse_unk", STEPS_FUSE_UNK },
        { "ignore_merges", STEPS_IGNORE_MERGES },
    };
    float dropout = 0;
    s->model = STEPS_BPE;
    for (size_t i = 0; i < QSF_ARRAY_LEN(flags) && !s->st; i++) {
        bool on;
        s->st = qsf_json_get_bool(model, FILE_NAME ": model", flags[i].key, false, &on, s->err);
        if (on) s->flags |= flags[i].flag;
    }
    if (s->st || (s->st = qsf_json_get_f32(model, FILE_NAME ": model", "dropout", 0, &dropout,
                                           s->err))) return;
    if (dropout != 0) {
        s->st = qsf_fail(s->err, QSF_E_UNSUPPORTED, FILE_NAME ": BPE with dropout %g, whose tokens are "
                         "random; set it to null", (double)dropout);
        return;
    }
    s->prefix = qsf_json_get_str(model, "continuing_subword_prefix");
    s->suffix = qsf_json_get_str(model, "end_of_word_suffix");
    steps_vocab(s, model);
    steps_unk(s, model);
    if (!s->st) s->st = qsf_hf_merges(s->b, model, false, s->prefix ? s->prefix : "", s->err);
}

static void steps_words(steps_build *s, yyjson_val *model, bool pieces)
{
    const char *prefix = qsf_json_get_str(model, "continuing_subword_prefix");
    s->model = pieces ? STEPS_WORDPIECE : STEPS_WORDLEVEL;
    if (pieces) s->prefix = prefix ? prefix : "##";
    s->max_chars = 100;
    if (pieces && !s->st)
        s->st = qsf_json_get_u32(model, FILE_NAME ": model", "max_input_chars_per_word", 100, 0, UINT32_MAX,
                                 &s->max_chars, s->err);
    steps_vocab(s, model);
    steps_unk(s, model);
}

static void steps_unigram(steps_build *s, yyjson_val *model)
{
    size_t i, n, len;
    uint64_t unk = UINT64_MAX;
    bool bytes;
    yyjson_val *e, *vocab = qsf_json_get(model, "vocab");
    s->model = STEPS_UNIGRAM;
    s->b->scores = true;
    if (s->st || (s->st = qsf_json_get_bool(model, FILE_NAME ": model", "byte_fallback", false, &bytes,
                                            s->err)))
        return;
    if (bytes) s->flags |= STEPS_BYTE_FALLBACK;
    yyjson_arr_foreach(vocab, i, n, e) {
        const char *text = qsf_json_str(yyjson_arr_get_first(e), &len);
        yyjson_val *score = yyjson_arr_get_last(e);
        if (yyjson_arr_size(e) != 2 || !text || !yyjson_is_num(score)
            || !(fabs(yyjson_get_num(score)) <= (double)FLT_MAX)) {
            s->st = qsf_fail(s->err, QSF_E_CORRUPT,
                             FILE_NAME ": entry %zu of the vocabulary is not a string with a score", i);
            return;
        }
        steps_token(s, i, text, len, (float)yyjson_get_num(score));
        if (s->st) return;
    }
    if (!yyjson_arr_size(vocab)) {
        s->st = qsf_fail(s->err, QSF_E_CORRUPT, FILE_NAME ": no vocabulary");
        return;
    }
    if (qsf_json_u64(qsf_json_get(model, "unk_id"), &unk) && unk < n) s->unk = (int32_t)unk;
    s->st = qsf_vocab_index(s->b, s->err);
}

static void steps_model(steps_build *s, yyjson_val *root)
{
    yyjson_val *model = qsf_json_get(root, "model");
    const char *type = qsf_json_get_str(model, "type");
    if (!type) type = qsf_json_get(model, "merges") ? "BPE" : yyjson_is_arr(qsf_json_get(model, "vocab"))
        ? "Unigram" : "(none)";
    if (!strcmp(type, "BPE")) steps_bpe(s, model);
    else if (!strcmp(type, "WordPiece")) steps_words(s, model, true);
    else if (!strcmp(type, "WordLevel")) steps_words(s, model, false);
    else if (!strcmp(type, "Unigram")) steps_unigram(s, model);
    else qsf_steps_refuse(s, "a model", type);
}

/* ---- added tokens ---------------------------------------------------------------------------- */

static void steps_added_token(steps_build *s, yyjson_val *e, size_t i)
{
    static const struct { const char *key; uint32_t flag; } flags[] = {
        { "lstrip", STEPS_LSTRIP }, { "rstrip", STEPS_RSTRIP }, { "single_word", STEPS_SINGLE_WORD },
        { "normalized", STEPS_NORMALIZED },
    };
    uint64_t id;
    size_t len;
    uint32_t on = 0;
    bool special = false, is;
    const char *text = qsf_json_str(qsf_json_get(e, "content"), &len);
    if (!text || !qsf_json_u64(qsf_json_get(e, "id"), &id)) {
        steps_check(s, qsf_fail(s->err, QSF_E_CORRUPT, FILE_NAME ": added token %zu has no content or id",
                                i));
        return;
    }
    steps_check(s, qsf_json_get_bool(e, FILE_NAME, "special", false, &special, s->err));
    for (size_t k = 0; k < QSF_ARRAY_LEN(flags) && !s->st; k++) {
        s->st = qsf_json_get_bool(e, FILE_NAME, flags[k].key, k == 3 && !special, &is, s->err);
        if (is) on |= flags[k].flag;
    }
    if (s->st) return;
    const bool in_model = id < s->b->n && s->b->tokens[id].text;
    if ((s->st = qsf_vocab_add_as_is(s->b, id, text, len, special, s->err)) || id >= s->b->n) return;
    qsf_steps_put(s, &s->added, (uint32_t)id);
    qsf_steps_put(s, &s->added, on | (in_model ? 0 : STEPS_APART));
    s->n_added++;
}

static void steps_added_tokens(steps_build *s, yyjson_val *root)
{
    size_t i, n;
    yyjson_val *e;
    yyjson_arr_foreach(qsf_json_get(root, "added_tokens"), i, n, e) {
        if (s->st) return;
        steps_added_token(s, e, i);
    }
}

/* ---- special tokens before and after the input
 * ------------------------------------------------ */

static void steps_around(steps_build *s, bool behind, uint64_t id)
{
    if (id >= s->b->n) {
        if (!s->st)
            s->st = qsf_fail(s->err, QSF_E_CORRUPT, FILE_NAME ": the post-processor adds token %llu; the "
                             "embedding has %u rows", (unsigned long long)id, (unsigned)s->b->n);
        return;
    }
    qsf_steps_put(s, behind ? &s->end : &s->begin, (uint32_t)id);
    if (behind) s->n_end++;
    else s->n_begin++;
}

/* Adds a template's special token: the ids that the template lists for it, or the token of that
 * name. */
static void steps_around_named(steps_build *s, yyjson_val *special, const char *name, bool behind)
{
    size_t i, n;
    yyjson_val *e, *ids = qsf_json_get(qsf_json_get(special, name), "ids");
    uint64_t id;
    if (!yyjson_arr_size(ids)) {
        const int32_t found = qsf_vocab_scan(s->b, name, strlen(name));
        steps_around(s, behind, found < 0 ? UINT64_MAX : (uint64_t)found);
        return;
    }
    yyjson_arr_foreach(ids, i, n, e) steps_around(s, behind, qsf_json_u64(e, &id) ? id : UINT64_MAX);
}

/* Adds the special tokens of a template for a single text. */
static void steps_template(steps_build *s, yyjson_val *v)
{
    size_t i, n, texts = 0;
    yyjson_val *e;
    yyjson_arr_foreach(qsf_json_get(v, "single"), i, n, e) {
        const char *name = qsf_json_get_str(qsf_json_get(e, "SpecialToken"), "id");
        if (name) steps_around_named(s, qsf_json_get(v, "special_tokens"), name, texts != 0);
        else texts++;
    }
    if (texts != 1)
        qsf_steps_refuse(s, "a post-processor", "TemplateProcessing whose \"single\" does not hold one text");
}

/* ["<s>", 0] */
static void steps_pair(steps_build *s, yyjson_val *v, const char *key, bool behind)
{
    uint64_t id;
    yyjson_val *pair = qsf_json_get(v, key);
    steps_around(s, behind, yyjson_arr_size(pair) == 2 && qsf_json_u64(yyjson_arr_get_last(pair), &id) ? id
                 : UINT64_MAX);
}

static void steps_processor(steps_build *s, yyjson_val *v)
{
    const char *type = steps_type(v);
    size_t i, n;
    yyjson_val *e;
    if (!v || s->st) return;
    if (!strcmp(type, "Sequence")) {            /* the JSON parser bounds the nesting */
        yyjson_arr_foreach(qsf_json_get(v, "processors"), i, n, e) steps_processor(s, e);
        return;
    }
    if (!strcmp(type, "ByteLevel")) return;             /* affects offsets only */
    if (s->n_begin || s->n_end) {
        qsf_steps_refuse(s, "a second post-processor", type);
    } else if (!strcmp(type, "TemplateProcessing")) {
        steps_template(s, v);
    } else if (!strcmp(type, "BertProcessing") || !strcmp(type, "RobertaProcessing")) {
        steps_pair(s, v, "cls", false);
        steps_pair(s, v, "sep", true);
    } else {
        qsf_steps_refuse(s, "a post-processor", type);
    }
}

/* ---- tokens to text -------------------------------------------------------------------------- */

static void steps_decode_step(steps_build *s, uint32_t op, const char *from, const char *to)
{
    qsf_steps_put(s, &s->decode, op);
    qsf_steps_put_text(s, &s->decode, from);
    qsf_steps_put_text(s, &s->decode, to);
    s->n_decode++;
}

/* Removes the spaces around punctuation. */
static void steps_cleanup(steps_build *s)
{
    static const char *const by[][2] = {
        { " .", "." },     { " ?", "?" },     { " !", "!" },             { " ,", "," },     { " ' ", "'" },
        { " n't", "n't" }, { " 'm", "'m" },   { " do not", " don't" },   { " 's", "'s" },   { " 've", "'ve" },
        { " 're", "'re" },
    };
    for (size_t i = 0; i < QSF_ARRAY_LEN(by); i++) steps_decode_step(s, DECODE_REPLACE, by[i][0], by[i][1]);
}

static void steps_decoder(steps_build *s, yyjson_val *v, bool *fused)
{
    const char *type = steps_type(v), *from = NULL, *to = NULL;
    size_t i, n;
    yyjson_val *e;
    bool cleanup;
    if (s->st) return;
    if (!strcmp(type, "Sequence")) {            /* the JSON parser bounds the nesting */
        yyjson_arr_foreach(qsf_json_get(v, "decoders"), i, n, e) steps_decoder(s, e, fused);
    } else if (!strcmp(type, "ByteLevel")) {
        steps_decode_step(s, DECODE_LETTERS, "", "");
    } else if (!strcmp(type, "Metaspace")) {
        from = qsf_json_get_str(v, "replacement");
        steps_decode_step(s, DECODE_REPLACE, from && *from ? from : "\xe2\x96\x81", " ");
    } else if (!strcmp(type, "BPEDecoder")) {
        from = qsf_json_get_str(v, "suffix");
        steps_decode_step(s, DECODE_REPLACE, from && *from ? from : "</w>", " ");
    } else if (!strcmp(type, "WordPiece")) {
        from = qsf_json_get_str(v, "prefix");
        steps_decode_step(s, DECODE_LEAD, from ? from : "##", " ");
        s->st = s->st ? s->st : qsf_json_get_bool(v, FILE_NAME, "cleanup", true, &cleanup, s->err);
        if (!s->st && cleanup) steps_cleanup(s);
    } else if (!strcmp(type, "Replace")) {
        from = qsf_json_get_str(qsf_json_get(v, "pattern"), "String");
        to = qsf_json_get_str(v, "content");
        if (from && *from && to && !*fused) steps_decode_step(s, DECODE_REPLACE, from, to);
        else qsf_steps_refuse(s, "a decoder", "Replace by an expression, or of the text as a whole");
    } else if (!strcmp(type, "Fuse")) {
        *fused = true;
    } else if (!strcmp(type, "Strip") && !*fused) {
        qsf_steps_refuse(s, "a decoder", "Strip of each token");
    } else if (strcmp(type, "ByteFallback") && strcmp(type, "Strip")) {
        qsf_steps_refuse(s, "a decoder", type);
    }
}

/* ---- the result ------------------------------------------------------------------------------ */

typedef struct steps_bytes_out { uint8_t *p; uint64_t n; } steps_bytes_out;     /* p NULL: only counts */

static void out_number(steps_bytes_out *o, uint32_t v)
{
    for (; v >= 128; v >>= 7, o->n++)
        if (o->p) o->p[o->n] = (uint8_t)(v | 128);
    if (o->p) o->p[o->n] = (uint8_t)v;
    o->n++;
}

static void out_text(steps_bytes_out *o, const char *text)
{
    size_t used;
    const size_t len = text ? strlen(text) : 0;
    uint32_t n = 0;
    for (size_t i = 0; i < len; i += used, n++) qsf_utf8_decode(text + i, len - i, &used);
    out_number(o, n);
    for (size_t i = 0; i < len; i += used) out_number(o, qsf_utf8_decode(text + i, len - i, &used));
}

static void out_list(steps_bytes_out *o, uint32_t n, const steps_list *l)
{
    out_number(o, n);
    for (size_t i = 0; i < l->n; i++) out_number(o, l->v[i]);
}

static void out_all(const steps_build *s, steps_bytes_out *o)
{
    out_number(o, STEPS_VERSION);
    out_number(o, s->model);
    out_number(o, s->flags);
    out_number(o, s->max_chars);
    out_number(o, (uint32_t)(s->unk + 1));
    out_text(o, s->prefix);
    out_text(o, s->suffix);
    out_list(o, s->n_begin, &s->begin);
    out_list(o, s->n_end, &s->end);
    out_list(o, s->n_added, &s->added);
    out_list(o, s->n_sets, &s->sets);
    out_list(o, s->n_expressions, &s->expressions);
    out_list(o, s->n_tables, &s->tables);
    out_list(o, s->n_steps, &s->steps);
    out_list(o, s->n_decode, &s->decode);
}

/* Stores the steps in the vocabulary after reading them back, so that no reader refuses them. */
static void steps_finish(steps_build *s)
{
    steps_bytes_out o = { 0 };
    qsf_vocab *v = s->b->out;
    qsf_steps read;
    qsf_arena *arena;
    if (s->st) return;
    out_all(s, &o);
    if (o.n > UINT32_MAX) qsf_steps_refuse(s, "steps", "more than 4 GB");
    v->steps = s->st ? NULL : qsf_arena_alloc(s->b->arena, o.n, "tokenizer", s->err);
    if (!v->steps) {
        steps_check(s, QSF_E_MEMORY);
        return;
    }
    v->steps_len = (uint32_t)o.n;
    o = (steps_bytes_out){ v->steps, 0 };
    out_all(s, &o);
    if ((s->st = qsf_arena_new(s->b->platform, &arena, s->err))) return;
    s->st = qsf_steps_read(arena, v->steps, v->steps_len, s->b->n, &read, s->err);
    qsf_arena_free(arena);
    v->kind = QSF_VOCAB_STEPS;
    v->unk = s->unk;
    v->add_bos = s->n_begin != 0;
    v->add_eos = s->n_end != 0;
    if (s->n_begin) v->bos = (int32_t)s->begin.v[0];
    if (s->n_end) v->eos = v->sep = (int32_t)s->end.v[0];
}

qsf_status qsf_hf_steps(vocab_build *b, yyjson_val *root, const char *pre, qsf_error *err)
{
    steps_build s = { .b = b, .err = err, .unk = -1 };
    yyjson_val *decoder = qsf_json_get(root, "decoder");
    bool fused = false;
    qsf_steps_set_of(&s, qsf_points_word_rust);         /* set 0 */
    steps_model(&s, root);
    steps_added_tokens(&s, root);
    qsf_steps_normalizer(&s, qsf_json_get(root, "normalizer"));
    qsf_steps_add_step(&s, STEP_TOKENS, 0, 0, "");
    qsf_format(b->out->pre, sizeof b->out->pre, "%s", pre);
    if (*pre) {
        qsf_steps_add_step(&s, STEP_CUT, 0, 0, "");
        qsf_steps_add_step(&s, STEP_LETTERS, 0, 0, "");
    } else {
        qsf_steps_pretokenizer(&s, qsf_json_get(root, "pre_tokenizer"));
    }
    steps_processor(&s, qsf_json_get(root, "post_processor"));
    if (decoder) steps_decoder(&s, decoder, &fused);
    else steps_decode_step(&s, DECODE_LEAD, "", " ");
    steps_finish(&s);
    qsf_steps_done(&s);
    return s.st;
}

#undef FILE_NAME
#endif
