/* Special tokens of a Hugging Face tokenizer: the BOS and EOS tokens, whether they are added
 * automatically, and other tokens that end a turn; and the chat template.
 * SPDX-License-Identifier: MIT */
#include "read/hf_tokenizer.h"
#include "base/text_file.h"

#ifdef QSF_HAVE_YYJSON

#define SPECIAL_CONFIG "tokenizer_config.json"

/* "<s>" or {"content": "<s>", ...}. */
static qsf_status special_text(yyjson_val *config, const char *key, const char **out, qsf_error *err)
{
    yyjson_val *v = qsf_json_get(config, key);
    *out = qsf_json_str(yyjson_is_obj(v) ? qsf_json_get(v, "content") : v, NULL);
    return !v || *out ? QSF_OK
        : qsf_json_refuse(v, SPECIAL_CONFIG, key, "a string, or an object with a string \"content\"", err);
}

static int32_t special_find(const vocab_build *b, const char *text)
{
    return text && *text ? qsf_vocab_scan(b, text, strlen(text)) : -1;
}

/* The text in tokenizer_config.json takes precedence over the number in config.json, and that over
 * the SentencePiece model's. */
static qsf_status special_set(const vocab_build *b, yyjson_val *config, const char *key, int32_t number,
                              int32_t *id, qsf_error *err)
{
    const char *text;
    const qsf_status st = special_text(config, key, &text, err);
    if (st) return st;
    const int32_t found = special_find(b, text);
    if (found >= 0) *id = found;
    else if (number >= 0 && (uint32_t)number < b->n) *id = number;
    else if (*id >= 0 && (uint32_t)*id >= b->n) *id = -1;
    return QSF_OK;
}

/* ---- added by themselves? -------------------------------------------------------------------- */

typedef struct special_adds { int bos, eos; } special_adds;     /* -1: not set */

/* How many special tokens are between the two texts of a pair. */
static int special_between(yyjson_val *pair)
{
    size_t i, n;
    yyjson_val *e;
    int between = -1;
    yyjson_arr_foreach(pair, i, n, e) {
        if (qsf_json_get(e, "Sequence") && between >= 0) return between;
        if (qsf_json_get(e, "Sequence")) between = 0;
        else if (between >= 0) between++;
    }
    return 0;
}

/* A template of one text: special tokens around {"Sequence": "A"}.  An
 * unset begin or end token is learnt from it. */
static void special_template(vocab_build *b, yyjson_val *processor, special_adds *adds)
{
    yyjson_val *single = qsf_json_get(processor, "single");
    const char *first = qsf_json_get_str(qsf_json_get(yyjson_arr_get_first(single), "SpecialToken"), "id");
    const char *last = qsf_json_get_str(qsf_json_get(yyjson_arr_get_last(single), "SpecialToken"), "id");
    const int32_t bos = special_find(b, first), eos = special_find(b, last);
    if (yyjson_arr_size(single) < 2) return;
    b->two_between = special_between(qsf_json_get(processor, "pair")) == 2;
    if (bos >= 0 && b->out->bos < 0) b->out->bos = bos;
    if (eos >= 0) b->out->eos = eos;            /* it runs, whatever the settings call the end */
    if (first) adds->bos = bos >= 0 && bos == b->out->bos;
    if (last) adds->eos = eos >= 0;
}

/* RobertaProcessing: "<s> A </s></s> B </s>" */
static void special_processor(vocab_build *b, yyjson_val *v, special_adds *adds)
{
    const char *type = qsf_json_get_str(v, "type");
    if (type && !strcmp(type, "TemplateProcessing")) special_template(b, v, adds);
    if (type && !strcmp(type, "RobertaProcessing")) b->two_between = true;
}

static void special_processors(vocab_build *b, yyjson_val *tokenizer, special_adds *adds)
{
    yyjson_val *post = qsf_json_get(tokenizer, "post_processor"), *list = qsf_json_get(post, "processors"),
               *e;
    size_t i, n;
    if (post && !list) special_processor(b, post, adds);
    yyjson_arr_foreach(list, i, n, e) special_processor(b, e, adds);
}

/* What a SentencePiece tokenizer adds by default: BOS at the beginning, T5's only EOS at the end,
 * XLM-RoBERTa's both. */
static special_adds special_usual(const vocab_build *b, yyjson_val *tokenizer, yyjson_val *config,
                                  const hf_config *cfg)
{
    const char *name = qsf_json_get_str(config, "tokenizer_class");
    const bool unigram = b->out->kind == QSF_VOCAB_UGM && !tokenizer;
    const bool t5 = unigram && name && !strncmp(name, "T5", 2);
    return (special_adds){ .bos = b->out->kind == QSF_VOCAB_SPM || (unigram && !t5),
                           .eos = t5 || (unigram && cfg->type->pos_first) };
}

/* The post-processor is what runs, so it counts before the settings. */
static qsf_status special_adding(vocab_build *b, yyjson_val *tokenizer, yyjson_val *config,
                                 const hf_config *cfg, qsf_error *err)
{
    const special_adds usual = special_usual(b, tokenizer, config, cfg);
    special_adds adds = { -1, -1 };
    qsf_status st;
    special_processors(b, tokenizer, &adds);
    if ((st = qsf_json_get_bool(config, SPECIAL_CONFIG, "add_bos_token", usual.bos, &b->out->add_bos, err)) ||
        (st = qsf_json_get_bool(config, SPECIAL_CONFIG, "add_eos_token", usual.eos, &b->out->add_eos, err)))
        return st;
    if (adds.bos >= 0) b->out->add_bos = adds.bos;
    if (adds.eos >= 0) b->out->add_eos = adds.eos;
    if (b->out->bos < 0) b->out->add_bos = false;
    if (b->out->eos < 0) b->out->add_eos = false;
    return QSF_OK;
}

/* ---- ends ------------------------------------------------------------------------------------ */

static void special_add_end(vocab_build *b, int32_t id)
{
    qsf_vocab *v = b->out;
    if (id < 0 || (uint32_t)id >= b->n || id == v->eos || id == v->eot) return;
    for (uint32_t i = 0; i < v->n_eog; i++)
        if (v->eog[i] == id) return;
    if (v->n_eog < QSF_ARRAY_LEN(v->eog)) v->eog[v->n_eog++] = id;
}

/* No field of the files lists the tokens that end a turn or a fill-in-the-middle completion: they
 * are recognised by name.  These are the names in core/model/gguf_vocab.c, so that both kinds of
 * file stop at the same tokens. */
/* DeepSeek's, with full-width bars */
#define BARS_END "<\xef\xbd\x9c\x65nd\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>"
static const char *const special_turns[] = {
    /* the first of these that there is becomes eot */
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>",      "<|end_of_text|>",
    "<EOT>",      "_<EOT>",     "[EOT]",   BARS_END,        "<end_of_utterance>",
};
static const char *const special_others[] = {
    "<|return|>", "<|call|>",     "<|flush|>",     "<|calls|>",  "</s>",
    "<|eom_id|>", "[EOS]",        "<eos>",         "<turn|>",    "<|tool_response>",
    "[e~[",       "<|fim_pad|>",  "<fim-pad>",     "<fim_pad>",  "<PAD>",
    "[PAD]",      "<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>",
    "<reponame>", "<|file_sep|>",
};
static const char *const special_fill[] = {
    /* control tokens that do not end anything */
    "<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>",   "<PRE>",        "<|fim_suffix|>", "<fim-suffix>",
    "<fim_suffix>",   "<SUF>",        "<|fim_middle|>", "<fim-middle>", "<fim_middle>",   "<MID>",
};
#  undef BARS_END

static int32_t special_control(vocab_build *b, const char *text)
{
    const int32_t id = special_find(b, text);
    if (id >= 0) b->tokens[id].type = QSF_TOKEN_CONTROL;
    return id;
}

static void special_ends(vocab_build *b, const hf_config *cfg)
{
    for (size_t i = 0; i < QSF_ARRAY_LEN(special_turns) && b->out->eot < 0; i++)
        b->out->eot = special_find(b, special_turns[i]);
    for (uint32_t i = 0; i < cfg->n_more_eos; i++) special_add_end(b, cfg->more_eos[i]);
    special_add_end(b, cfg->eos);
    for (size_t i = 0; i < QSF_ARRAY_LEN(special_fill); i++) special_control(b, special_fill[i]);
    for (size_t i = 0; i < QSF_ARRAY_LEN(special_turns); i++)
        special_add_end(b, special_control(b, special_turns[i]));
    for (size_t i = 0; i < QSF_ARRAY_LEN(special_others); i++)
        special_add_end(b, special_control(b, special_others[i]));
}

qsf_status qsf_hf_special_tokens(vocab_build *b, yyjson_val *tokenizer, yyjson_val *config,
                                 const hf_config *cfg, qsf_error *err)
{
    qsf_vocab *v = b->out;
    qsf_status st;
    if ((st = special_set(b, config, "bos_token", cfg->bos, &v->bos, err)) ||
        (st = special_set(b, config, "eos_token", cfg->eos, &v->eos, err)) ||
        (st = special_set(b, config, "pad_token", cfg->pad, &v->pad, err)) ||
        (st = special_set(b, config, "unk_token", -1, &v->unk, err)) ||
        (st = special_set(b, config, "sep_token", -1, &v->sep, err)) ||
        (v->kind != QSF_VOCAB_STEPS && (st = special_adding(b, tokenizer, config, cfg, err)))) return st;
    if (v->kind == QSF_VOCAB_STEPS) {           /* the steps already add BOS and EOS */
        special_adds ignored;
        const int32_t eos = v->eos;
        special_processors(b, tokenizer, &ignored);
        v->eos = eos;
        if (v->bos < 0 && (st = special_set(b, config, "cls_token", -1, &v->bos, err))) return st;
    }
    special_ends(b, cfg);
    return QSF_OK;
}

/* ---- chat template --------------------------------------------------------------------------- */

static qsf_status template_add(vocab_build *b, const char *name, const char *text, qsf_error *err)
{
    return qsf_vocab_template(b->out, b->arena, name, strlen(name), text, strlen(text), err);
}

/* A text, or a list of {"name": ..., "template": ...}; one of these that is called default, else
 * the first, is the template without a name. */
static qsf_status template_config(vocab_build *b, yyjson_val *config, const char *what, qsf_error *err)
{
    yyjson_val *e, *v = qsf_json_get(config, "chat_template"), *best = yyjson_arr_get_first(v);
    size_t i, n;
    yyjson_arr_foreach(v, i, n, e) {
        const char *name = qsf_json_get_str(e, "name");
        if (name && !strcmp(name, "default")) best = e;
    }
    const char *text = yyjson_is_arr(v) ? qsf_json_get_str(best, "template") : qsf_json_str(v, NULL);
    if (v && !text && !(yyjson_is_arr(v) && !best))
        return qsf_json_refuse(v, what, "chat_template", "a string, or a list of objects with a \"template\"",
                               err);
    qsf_status st = text ? template_add(b, "default", text, err) : QSF_OK;
    yyjson_arr_foreach(v, i, n, e) {
        const char *name = qsf_json_get_str(e, "name"), *more = qsf_json_get_str(e, "template");
        if (!st && name && more && e != best) st = template_add(b, name, more, err);
    }
    return st;
}

/* A file that may be missing; *is_there tells. */
static qsf_status template_file(vocab_build *b, const char *dir, const char *file, const char *name,
                                bool *is_there, qsf_error *err)
{
    char *text = NULL;
    uint64_t len = 0;
    qsf_status st = qsf_text_file_read(b->platform, dir, file, 4 << 20, &text, &len, err);
    *is_there = !st;
    if (st == QSF_E_NOT_FOUND) return QSF_OK;
    if (!st) st = template_add(b, name, text, err);
    if (text) qsf_dealloc(b->platform, text, len + 1);
    return st;
}

static qsf_status template_json(vocab_build *b, const char *dir, qsf_error *err)
{
    static const char file[] = "chat_template.json";
    char *text = NULL;
    uint64_t len = 0;
    json_text j = { 0 };
    qsf_status st = qsf_text_file_read(b->platform, dir, file, 4 << 20, &text, &len, err);
    if (st == QSF_E_NOT_FOUND) return QSF_OK;
    if (!st && !(st = qsf_json_parse(b->platform, text, (size_t)len, file, &j, err))
        && !(st = qsf_json_check_object(j.root, file, err)))
        st = template_config(b, j.root, file, err);
    qsf_json_free(&j);
    if (text) qsf_dealloc(b->platform, text, len + 1);
    return st;
}

/* chat_template.jinja and the files of further ones, then tokenizer_config.json, then
 * chat_template.json. */
qsf_status qsf_hf_chat_template(vocab_build *b, const char *dir, yyjson_val *config, qsf_error *err)
{
    static const struct { const char *file, *name; } named[] = {
        { "additional_chat_templates/tool_use.jinja", "tool_use" },
        { "additional_chat_templates/rag.jinja", "rag" },
    };
    bool is_there, more;
    qsf_status st = template_config(b, config, SPECIAL_CONFIG, err);
    if (!st) st = template_file(b, dir, "chat_template.jinja", "default", &is_there, err);
    for (size_t i = 0; i < QSF_ARRAY_LEN(named) && !st; i++)
        st = template_file(b, dir, named[i].file, named[i].name, &more, err);
    if (!st && !is_there && !b->out->chat_template) st = template_json(b, dir, err);
    return st;
}

#undef SPECIAL_CONFIG
#endif
