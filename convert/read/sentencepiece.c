/* The pieces of a SentencePiece model: a protobuf message of which a few fields count.
 * SPDX-License-Identifier: MIT
 * https://github.com/google/sentencepiece, src/sentencepiece_model.proto. */
#include "read/sentencepiece.h"

/* A message: its unread bytes. */
typedef struct spm_bytes { const uint8_t *p, *end; } spm_bytes;
/* One field: a number, or the bytes of a string or message. */
typedef struct spm_field { uint64_t number; uint32_t wire; uint64_t value; spm_bytes bytes; } spm_field;

enum { SPM_VARINT = 0, SPM_FIXED64 = 1, SPM_BYTES = 2, SPM_FIXED32 = 5 };
/* Fields of ModelProto, SentencePiece, TrainerSpec, NormalizerSpec. */
enum {
    MODEL_PIECES = 1,
    MODEL_TRAINER = 2,
    MODEL_NORMALIZER = 3,
    PIECE_TEXT = 1,
    PIECE_SCORE = 2,
    PIECE_TYPE = 3,
    TRAINER_TYPE = 3,
    TRAINER_SUFFIX = 24,
    TRAINER_UNK = 40,
    TRAINER_BOS = 41,
    TRAINER_EOS = 42,
    TRAINER_PAD = 43,
    NORMALIZER_CHARSMAP = 2,
    NORMALIZER_DUMMY_PREFIX = 3,
    NORMALIZER_MERGE_SPACES = 4
};
enum { SPM_UNIGRAM = 1, SPM_BPE = 2 };

static bool spm_varint(spm_bytes *b, uint64_t *out)
{
    *out = 0;
    for (uint32_t shift = 0; shift < 64 && b->p < b->end; shift += 7) {
        const uint8_t byte = *b->p++;
        *out |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) return true;
    }
    return false;
}

/* False if the bytes are not a field. */
static bool spm_next(spm_bytes *b, spm_field *f)
{
    uint64_t key;
    if (!spm_varint(b, &key)) return false;
    const size_t left = (size_t)(b->end - b->p);
    f->number = key >> 3;
    f->wire = key & 7;
    f->value = 0;
    switch (f->wire) {
    case SPM_VARINT:
        return spm_varint(b, &f->value);
    case SPM_FIXED64:
        if (left < 8) return false;
        f->value = qsf_le64(b->p);
        b->p += 8;
        return true;
    case SPM_FIXED32:
        if (left < 4) return false;
        f->value = qsf_le32(b->p);
        b->p += 4;
        return true;
    case SPM_BYTES:
        if (!spm_varint(b, &f->value) || f->value > (size_t)(b->end - b->p)) return false;
        f->bytes = (spm_bytes){ b->p, b->p + f->value };
        b->p += f->value;
        return true;
    default:
        return false;
    }
}

static bool spm_flag(const spm_field *f, uint64_t number)
{
    return f->number == number && f->wire == SPM_VARINT && f->value != 0;
}

/* A negative number (-1: none) is a varint of ten bytes. */
static int32_t spm_id(uint64_t v) { return v <= INT32_MAX ? (int32_t)v : -1; }

static qsf_status spm_piece(vocab_build *b, spm_bytes m, const char *name, uint64_t id, qsf_error *err)
{
    const char *text = "";
    size_t len = 0;
    float score = 0;
    uint64_t type = QSF_TOKEN_NORMAL;
    spm_field f;
    while (m.p < m.end) {
        if (!spm_next(&m, &f))
            return qsf_fail(err, QSF_E_CORRUPT, "%s: piece %llu is damaged", name, (unsigned long long)id);
        if (f.number == PIECE_TEXT && f.wire == SPM_BYTES)
            text = (const char *)f.bytes.p, len = (size_t)f.value;
        if (f.number == PIECE_SCORE && f.wire == SPM_FIXED32) score = qsf_f32_from_bits((uint32_t)f.value);
        if (f.number == PIECE_TYPE && f.wire == SPM_VARINT) type = f.value;
    }
    if (!(fabsf(score) <= FLT_MAX))
        return qsf_fail(err, QSF_E_CORRUPT, "%s: piece %llu has a score that is not a number", name,
                        (unsigned long long)id);
    if (type < QSF_TOKEN_NORMAL || type > QSF_TOKEN_BYTE || memchr(text, 0, len))
        return qsf_fail(err, QSF_E_CORRUPT, "%s: piece %llu has type %llu, or a zero byte in its text", name,
                        (unsigned long long)id, (unsigned long long)type);
    if (id >= b->n && (type == QSF_TOKEN_CONTROL || type == QSF_TOKEN_UNUSED)) return b->ignored++, QSF_OK;
    if (type == QSF_TOKEN_USER) return qsf_vocab_add_special(b, id, text, len, false, err);
    return qsf_vocab_add(b, id, text, len, (uint8_t)type, score, err);
}

static qsf_status spm_trainer(spm_bytes m, spm_info *info, qsf_error *err)
{
    bool suffix = false;
    info->unigram = true;                               /* which a trainer that names none trains */
    for (spm_field f; m.p < m.end; ) {
        if (!spm_next(&m, &f))
            return qsf_fail(err, QSF_E_CORRUPT, "%s: the trainer section is damaged", info->name);
        if (f.wire != SPM_VARINT) continue;
        if (f.number == TRAINER_TYPE && f.value != SPM_BPE && f.value != SPM_UNIGRAM)
            return qsf_fail(err, QSF_E_UNSUPPORTED,
                            "%s: a SentencePiece model of type %s (supported: unigram, BPE)", info->name,
                            f.value == 3 ? "word" : "char");
        if (f.number == TRAINER_TYPE) info->unigram = f.value == SPM_UNIGRAM;
        suffix |= spm_flag(&f, TRAINER_SUFFIX);
        if (f.number == TRAINER_UNK) info->unk = spm_id(f.value);
        if (f.number == TRAINER_BOS) info->bos = spm_id(f.value);
        if (f.number == TRAINER_EOS) info->eos = spm_id(f.value);
        if (f.number == TRAINER_PAD) info->pad = spm_id(f.value);
    }
    if (!info->unigram || !suffix) return QSF_OK;
    return qsf_fail(err, QSF_E_UNSUPPORTED,
                    "%s: a SentencePiece model of type unigram with treat_whitespace_as_suffix", info->name);
}

/* charsmap: the normaliser's table, which only Unigram uses. */
static qsf_status spm_normalizer(spm_bytes m, spm_info *info, spm_bytes *charsmap, qsf_error *err)
{
    for (spm_field f; m.p < m.end; ) {
        if (!spm_next(&m, &f))
            return qsf_fail(err, QSF_E_CORRUPT, "%s: the normaliser section is damaged", info->name);
        if (f.number == NORMALIZER_CHARSMAP && f.wire == SPM_BYTES) *charsmap = f.bytes;
        if (f.wire != SPM_VARINT) continue;
        if (f.number == NORMALIZER_DUMMY_PREFIX) info->add_dummy_prefix = f.value != 0;
        if (f.number == NORMALIZER_MERGE_SPACES) info->merge_spaces = f.value != 0;
    }
    return QSF_OK;
}

/* fairseq's own tokens: the pieces are between them and the mask, one id higher than in the
 * file. */
static qsf_status spm_fairseq(vocab_build *b, uint64_t n, spm_info *info, qsf_error *err)
{
    static const char *const own[] = { "<s>", "<pad>", "</s>", "<unk>" };
    qsf_status st = QSF_OK;
    info->bos = 0, info->pad = 1, info->eos = 2, info->unk = 3;
    for (int32_t i = 0; i < 4 && !st; i++)
        st = qsf_vocab_add(b, (uint64_t)i, own[i], strlen(own[i]),
                           i == info->unk ? QSF_TOKEN_UNKNOWN : QSF_TOKEN_CONTROL, 0, err);
    return st ? st : qsf_vocab_add_special(b, n + 1, "<mask>", 6, true, err);
}

qsf_status qsf_spm_read(vocab_build *b, const void *bytes, size_t len, spm_info *info, qsf_error *err)
{
    spm_bytes m = { bytes, (const uint8_t *)bytes + len }, charsmap = { NULL, NULL };
    uint64_t n = 0;
    qsf_status st;
    info->add_dummy_prefix = info->merge_spaces = true; /* the trainer's defaults, like the next ones */
    info->unk = 0, info->bos = 1, info->eos = 2, info->pad = -1;
    for (spm_field f; m.p < m.end; ) {
        st = QSF_OK;
        if (!spm_next(&m, &f))
            return qsf_fail(err, QSF_E_CORRUPT, "%s: damaged at byte %zu", info->name,
                            (size_t)(m.p - (const uint8_t *)bytes));
        if (f.wire != SPM_BYTES) continue;
        if (f.number == MODEL_PIECES && info->shifted && n < 3) n++;
        else if (f.number == MODEL_PIECES) st = spm_piece(b, f.bytes, info->name, info->shifted + n++, err);
        if (f.number == MODEL_TRAINER) st = spm_trainer(f.bytes, info, err);
        if (f.number == MODEL_NORMALIZER) st = spm_normalizer(f.bytes, info, &charsmap, err);
        if (st) return st;
    }
    if (!n) return qsf_fail(err, QSF_E_CORRUPT, "%s: no pieces", info->name);
    if (info->shifted && (st = spm_fairseq(b, n, info, err))) return st;
    const size_t charsmap_len = (size_t)(charsmap.end - charsmap.p);
    if (!info->unigram || !charsmap_len) return QSF_OK;
    return qsf_vocab_charsmap(b->out, b->arena, charsmap.p, charsmap_len, info->name, err);
}
