/* A GGUF file taken apart: keys and tensors as the bytes have them.  Shared by the files that make
 * a qsf_source of it.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_GGUF_H
#define QSF_GGUF_H

#include "model/arch.h"
#include "model/source_formats.h"

/* GGUF's value types */
enum {
    GGUF_U8 = 0, GGUF_I8, GGUF_U16, GGUF_I16, GGUF_U32, GGUF_I32, GGUF_F32, GGUF_BOOL, GGUF_STRING,
    GGUF_ARRAY, GGUF_U64, GGUF_I64, GGUF_F64,
    GGUF_N_TYPES
};

typedef struct gguf_text { const char *p; size_t len; } gguf_text;      /* not terminated */

typedef struct gguf_kv {
    gguf_text      key;
    uint32_t       type;        /* of an array: of its elements */
    bool           array;
    uint64_t       n;           /* elements; 1 if it is not an array */
    /* strings: each u64 length, then the bytes; all of them were checked to be there */
    const uint8_t *data;
} gguf_kv;

typedef struct gguf_tensor {
    gguf_text name;
    uint32_t  n_dims;
    uint64_t  dims[4];          /* dims[0] runs fastest; not given: 1 */
    uint32_t  ggml_type;
    uint32_t  file;
    uint64_t  at;               /* in the file */
    /* once the type is known: */
    uint32_t  type, block;      /* qsf_type */
    uint64_t  bytes;
    /* types of bitnet.cpp (core/model/gguf_bitnet.c): */
    uint8_t   packing;          /* a qsf_stored, 0: none */
    uint64_t  room;             /* bytes to the next tensor, or to the end of the file */
    uint64_t  scale_in;         /* offset of its scale, an f32, in it; 0: it has no scale inside */
    struct gguf_tensor *scales; /* its scale, or its blocks' scales; NULL: none of its own */
    bool      is_scales;        /* it is another's scales */
} gguf_tensor;

/* One file of the model. */
typedef struct gguf_part {
    uint8_t     *bytes;         /* all before the weights */
    uint64_t     cap;
    uint32_t     n_kv, n_tensors;
    gguf_kv     *kv;
    gguf_tensor *tensors;
} gguf_part;

typedef struct gguf {
    qsf_source  *s;
    qsf_arena   *tmp;           /* gone when opening is over */
    gguf_part   *parts;         /* [QSF_MAX_SPLITS]; keys are those of the first */
    uint32_t     n_parts;
    uint32_t     n_tensors;     /* of all parts */
    gguf_tensor *tensors;
    uint32_t     n_nextn;       /* layers after hp.n_layers, which are skipped */
    const char  *arch;
    const qsf_arch *row;        /* arch's; NULL if only the vocabulary is asked for */
} gguf;

/* The file that holds a tensor; in a split model not always the first. */
static inline const char *gguf_path_of(const gguf *g, const gguf_tensor *t) { return g->s->paths[t->file]; }

/* ---- core/model/gguf_names.c: a set of names, for lookup and for finding duplicates ---- */
typedef struct gguf_names {
    const gguf_text *list;
    uint32_t *slots;            /* index + 1 in the mask's bits, the rest of the hash above; 0: empty */
    uint32_t  mask;
} gguf_names;
/* list[n] stays the caller's.  *twice (may be NULL) is the index of a name that was there before,
 * else -1; the first one is found. */
qsf_status qsf_gguf_names(qsf_arena *a, const char *path, const gguf_text *list, uint32_t n, gguf_names *out,
                          int64_t *twice, qsf_error *err);
int64_t    qsf_gguf_name_find(const gguf_names *names, const char *p, size_t len);     /* -1: not there */
static inline bool gguf_text_is(gguf_text t, const char *s)
{
    return t.len == strlen(s) && !memcmp(t.p, s, t.len);
}

/* ---- core/model/gguf_file.c ---- */
/* Reads keys and tensor places of all files.  g->tensors have checked extents
 * unless s->vocab_only. */
qsf_status qsf_gguf_read_files(gguf *g, qsf_error *err);
void       qsf_gguf_done(gguf *g);
/* A tensor of 64-bit numbers that only EAGLE 3 heads have: they are not weights. */
bool       qsf_gguf_is_ids(const gguf_tensor *t);

/* Keys.  A leading "%s" stands for the architecture.  If the key is missing or silent
 * (gguf_keys.c), *out is unchanged and the result is QSF_OK, or with need QSF_E_CORRUPT.  A value
 * of another type is QSF_E_CORRUPT. */
const gguf_kv *qsf_gguf_find(const gguf *g, const char *key);
qsf_status qsf_gguf_u32(const gguf *g, const char *key, bool need, uint32_t *out, qsf_error *err);
qsf_status qsf_gguf_f32(const gguf *g, const char *key, bool need, float *out, qsf_error *err);
qsf_status qsf_gguf_bool(const gguf *g, const char *key, bool *out, qsf_error *err);
qsf_status qsf_gguf_string(const gguf *g, const char *key, gguf_text *out, qsf_error *err);
/* Steps through strings: at is kv->data at first. */
gguf_text  qsf_gguf_next_string(const uint8_t **at);
const gguf_tensor *qsf_gguf_tensor(const gguf *g, const char *name);     /* NULL: it is not there */

/* ---- core/model/gguf_values.c ---- */
/* One number of an array or the value itself; i < kv->n. */
bool       qsf_gguf_integer(const gguf_kv *kv, uint64_t i, int64_t *out);      /* false: no integer */
bool       qsf_gguf_number(const gguf_kv *kv, uint64_t i, double *out);        /* false: no number */
uint32_t   qsf_gguf_value_bytes(uint32_t type);         /* 0: strings and arrays, whose length differs */

/* ---- core/model/gguf_keys.c ---- */
/* Whether a key (given with its "%s") is to be treated as missing because llama.cpp wrote it
 * without having read it. */
bool       qsf_gguf_is_silent(const gguf *g, const char *key, const gguf_kv *kv);

/* ---- core/model/gguf_hparams.c, core/model/gguf_vocab.c, core/model/gguf_read.c ---- */
qsf_status qsf_gguf_hparams(gguf *g, qsf_error *err);
qsf_status qsf_gguf_vocab(gguf *g, qsf_error *err);
/* The number of tokens: for a file without a vocabulary, that of its embedding's rows. */
qsf_status qsf_gguf_vocab_size(gguf *g, qsf_error *err);
qsf_status qsf_gguf_meta(gguf *g, qsf_error *err);
/* ---- core/model/gguf_layers.c ---- */
/* Sizes that may differ from layer to layer.  *out: the largest; *differ: whether they do. */
typedef enum gguf_layer_key { GGUF_LAYER_FF, GGUF_LAYER_HEADS, GGUF_LAYER_KV_HEADS, GGUF_LAYER_USED,
                              GGUF_LAYER_EXPERT_FF, GGUF_N_LAYER_KEYS } gguf_layer_key;
qsf_status qsf_gguf_layer_u32(const gguf *g, gguf_layer_key key, bool need, uint32_t *out, bool *differ,
                              qsf_error *err);
/* Gives them to the records that s->hp has filled. */
qsf_status qsf_gguf_layer_sizes(gguf *g, qsf_error *err);

/* ---- core/model/gguf_mixers.c ---- */
/* Which layers have another mixer than attention, and its sizes; needs the number of layers. */
qsf_status qsf_gguf_mixers(const gguf *g, qsf_error *err);

/* ---- core/model/gguf_mtp.c ---- */
/* What the file has for multi-token prediction; if that was asked for (s->mtp), its first layer
 * becomes one of the model's. */
qsf_status qsf_gguf_mtp(gguf *g, qsf_error *err);
/* Where a tensor belongs in a model with such a layer. */
typedef struct gguf_mtp_place {
    bool     skipped;           /* it is not needed */
    uint32_t unit, kind;        /* kind 0: not changed by the layer */
} gguf_mtp_place;
gguf_mtp_place qsf_gguf_mtp_place(const gguf *g, gguf_text name, int64_t layer, gguf_text rest);

/* ---- core/model/gguf_eagle.c ---- */
#if defined(QSF_NO_EAGLE)               /* of a program that can give no model a head */
static inline qsf_status qsf_gguf_eagle(gguf *g, qsf_error *err) { (void)g, (void)err; return QSF_OK; }
static inline qsf_status qsf_gguf_eagle_words(gguf *g, qsf_error *err) { (void)g, (void)err; return QSF_OK; }
static inline const char *qsf_gguf_eagle_name(const gguf *g, uint32_t k) { (void)g, (void)k; return ""; }
#else
/* The keys of an EAGLE 3 head; needs the sizes.  Nothing for other architectures. */
qsf_status qsf_gguf_eagle(gguf *g, qsf_error *err);
/* Its tokens: those of its embedding, those that its logits are for; needs the vocabulary. */
qsf_status qsf_gguf_eagle_words(gguf *g, qsf_error *err);
/* What its files call a tensor. */
const char *qsf_gguf_eagle_name(const gguf *g, uint32_t kind);
#endif

/* ---- core/model/gguf_family.c ---- */
/* What the architecture alone gives a meaning; needs all other hparams. */
qsf_status qsf_gguf_family(gguf *g, qsf_error *err);

/* ---- core/model/gguf_experts.c ---- */
/* Mixtures of experts; needs the sizes. */
qsf_status qsf_gguf_experts(gguf *g, qsf_error *err);

/* ---- core/model/gguf_read.c ---- */
/* Which matrices of an opened model a GGUF tensor with this name and number of rows holds: their
 * unit and their kinds.  Returns the number of kinds; 0: the model has no such tensor. */
uint32_t   qsf_gguf_kinds(const qsf_source *model, gguf_text name, uint64_t rows, uint32_t *unit,
                          uint8_t kinds[3]);

/* ---- core/model/gguf_bitnet.c ---- */
/* Whether the type's numbers are bitnet.cpp's: their bytes follow from places only. */
bool       qsf_gguf_is_bitnet(const gguf_tensor *t);
/* Finds out how part's tensors of these types, whose room is known, are stored. */
qsf_status qsf_gguf_bitnet(const gguf *g, gguf_part *part, uint64_t align, qsf_error *err);

/* Divisors of rotary frequencies, from tensors; need the hparams. */
qsf_status qsf_gguf_rope_factors(gguf *g, qsf_error *err);

#endif
