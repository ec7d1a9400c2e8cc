/* Gathers a vocabulary from the tokenizer files of a Hugging Face directory.
 * SPDX-License-Identifier: MIT */
#include "read/hf_vocab.h"
#include "read/hf_tokenizer.h"
#include "read/sentencepiece.h"
#include "base/text_file.h"

#ifdef QSF_HAVE_YYJSON

/* ---- which files ----------------------------------------------------------------------------- */

#define VOCAB_CONFIG "tokenizer_config.json"
enum { VOCAB_MAX_FILE = 256 << 20 };

/* The files a tokenizer may be spread over; those that are not there stay empty. */
typedef struct vocab_files {
    const char *spm_name;
    bool      shifted;          /* of spm_text: spm_info's */
    char     *spm_text, *json_text, *config_text, *added_text;
    uint64_t  spm_len, json_len, config_len, added_len;
    json_text json, config, added;
} vocab_files;

static qsf_status vocab_read_file(const qsf_platform *p, const char *dir, const char *name, char **text,
                                  uint64_t *len, json_text *j, qsf_error *err)
{
    qsf_status st = qsf_text_file_read(p, dir, name, VOCAB_MAX_FILE, text, len, err);
    if (st == QSF_E_NOT_FOUND) return QSF_OK;
    if (st || !j) return st;
    st = qsf_json_parse(p, *text, (size_t)*len, name, j, err);
    return st ? st : qsf_json_check_object(j->root, name, err);
}

/* tokenizer.model.  XLM-RoBERTa's file has another name, and is only read if neither
 * tokenizer.model nor tokenizer.json exists: its ids are not those of the model. */
static qsf_status vocab_read_spm(const qsf_platform *p, const char *dir, const hf_config *cfg, vocab_files *f,
                                 qsf_error *err)
{
    f->spm_name = "tokenizer.model";
    const qsf_status st = vocab_read_file(p, dir, f->spm_name, &f->spm_text, &f->spm_len, NULL, err);
    if (st || f->spm_text || f->json_text || !cfg->type->pos_first) return st;
    f->spm_name = "sentencepiece.bpe.model";
    f->shifted = true;
    return vocab_read_file(p, dir, f->spm_name, &f->spm_text, &f->spm_len, NULL, err);
}

static void vocab_files_free(const qsf_platform *p, vocab_files *f)
{
    qsf_json_free(&f->json);
    qsf_json_free(&f->config);
    qsf_json_free(&f->added);
    if (f->spm_text) qsf_dealloc(p, f->spm_text, f->spm_len + 1);
    if (f->json_text) qsf_dealloc(p, f->json_text, f->json_len + 1);
    if (f->config_text) qsf_dealloc(p, f->config_text, f->config_len + 1);
    if (f->added_text) qsf_dealloc(p, f->added_text, f->added_len + 1);
}

/* added_tokens.json: {"text": id}; tokenizer_config.json:
 * {"added_tokens_decoder": {"id": {"content": ...}}}. */
static qsf_status vocab_added_files(vocab_build *b, const vocab_files *f, yyjson_val *decoder, qsf_error *err)
{
    size_t i, n;
    yyjson_val *key, *val;
    qsf_status st;
    json_members(f->added.root, i, n, key, val) {
        uint64_t id;
        size_t len;
        const char *text = qsf_json_str(key, &len);
        if (!text || !qsf_json_u64(val, &id))
            return qsf_fail(err, QSF_E_CORRUPT, "added_tokens.json: an entry is not a string with an id");
        if ((st = qsf_vocab_add_special(b, id, text, len, false, err))) return st;
    }
    json_members(decoder, i, n, key, val) {
        size_t len = 0, digits = 0;
        const char *text = qsf_json_str(qsf_json_get(val, "content"), &len), *s = qsf_json_str(key, NULL);
        uint64_t id = 0;
        bool special;
        while (s && s[digits] >= '0' && s[digits] <= '9' && digits < 10)
            id = id * 10 + (uint64_t)(s[digits++] - '0');
        if (!text || !digits || s[digits])
            return qsf_fail(err, QSF_E_CORRUPT,
                            VOCAB_CONFIG ": an entry of added_tokens_decoder is not a token");
        if ((st = qsf_json_get_bool(val, VOCAB_CONFIG, "special", false, &special, err)) ||
            (st = qsf_vocab_add_special(b, id, text, len, special, err))) return st;
    }
    return QSF_OK;
}

/* A leading space: as tokenizer.json sets it, else tokenizer_config.json, else the SentencePiece
 * model. */
static qsf_status vocab_space_prefix(const vocab_files *f, const spm_info *info, const hf_config *cfg,
                                     qsf_vocab *v, qsf_error *err)
{
    if (cfg->type->bare_text) return v->add_space_prefix = false, QSF_OK;
    return qsf_json_get_bool(f->config.root, VOCAB_CONFIG, "add_prefix_space", info->add_dummy_prefix,
                             &v->add_space_prefix, err);
}

static qsf_status vocab_from_files(const char *dir, const vocab_files *f, const hf_config *cfg, input *in,
                                   vocab_build *b, qsf_error *err)
{
    spm_info info = { .name = f->spm_name, .shifted = f->shifted };
    qsf_vocab *v = &in->vocab;
    yyjson_val *decoder;
    char pre[32];
    qsf_status st = qsf_json_get_obj(f->config.root, VOCAB_CONFIG, "added_tokens_decoder", &decoder, err);
    if (st) return st;
    v->bos = v->eos = v->eot = v->unk = v->pad = v->sep = -1;
    /* if tokenizer.json and the SentencePiece model disagree, tokenizer.json takes precedence */
    bool pieces = f->spm_text;
    if (pieces && qsf_json_get(f->json.root, "model")
        && (st = qsf_hf_by_name(in->platform, f->json.root, cfg->type->pre, &pieces, pre, err))) return st;
    if (pieces) {
        qsf_format(v->pre, sizeof v->pre, "default");
        if ((st = qsf_spm_read(b, f->spm_text, (size_t)f->spm_len, &info, err))) return st;
        v->kind = info.unigram ? QSF_VOCAB_UGM : QSF_VOCAB_SPM;
        v->merge_spaces = info.unigram && info.merge_spaces;
        b->two_between = info.shifted;
        v->unk = info.unk, v->bos = info.bos, v->eos = info.eos, v->pad = info.pad;
        if ((st = vocab_added_files(b, f, decoder, err))) return st;
    }
    if (f->json.root &&
        (st = qsf_hf_tokenizer_json(b, f->json.root, pieces, cfg->type->pre, err))) return st;
    /* the same rules, except for spaces before a mask */
    if (cfg->type->keys == HF_KEYS_MODERN && !strcmp(v->pre, "gpt-2"))
        qsf_format(v->pre, sizeof v->pre, "modern-bert");
    if ((pieces && (st = vocab_space_prefix(f, &info, cfg, v, err))) ||
        (st = qsf_hf_special_tokens(b, f->json.root, f->config.root, cfg, err)) ||
        (st = qsf_hf_chat_template(b, dir, f->config.root, err))) return st;
    const bool scores = v->kind == QSF_VOCAB_SPM || v->kind == QSF_VOCAB_UGM
        || (v->kind == QSF_VOCAB_STEPS && b->scores);
    return qsf_vocab_finish(b, scores, err);
}

qsf_status qsf_hf_vocab_read(const char *dir, const hf_config *cfg, input *in, hf_vocab_said *said,
                             qsf_error *err)
{
    const qsf_platform *p = in->platform;
    vocab_files f = { 0 };
    vocab_build b = { 0 };
    qsf_status st;
    if (!(st = vocab_read_file(p, dir, "tokenizer.json", &f.json_text, &f.json_len, &f.json, err)) &&
        !(st = vocab_read_spm(p, dir, cfg, &f, err)) &&
        !(st = vocab_read_file(p, dir, VOCAB_CONFIG, &f.config_text, &f.config_len, &f.config, err)) &&
        !(st = vocab_read_file(p, dir, "added_tokens.json", &f.added_text, &f.added_len, &f.added, err))) {
        if (!f.spm_text && !f.json_text)
            st = qsf_fail(err, QSF_E_NOT_FOUND, "%s: neither tokenizer.json nor tokenizer.model", dir);
        else if (!(st = qsf_vocab_build_new(&b, p, in->arena, in->hp.n_vocab, &in->vocab, err)))
            st = vocab_from_files(dir, &f, cfg, in, &b, err);
    }
    *said = (hf_vocab_said){ .ignored = b.ignored, .two_between = b.two_between };
    qsf_vocab_build_free(&b);
    vocab_files_free(p, &f);
    return st;
}

#undef VOCAB_CONFIG
#endif
