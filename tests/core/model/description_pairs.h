/* Pairs of models that differ in one member of their description, generated from the table of
 * members.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_DESCRIPTION_PAIRS_H
#define QSF_DESCRIPTION_PAIRS_H

#include "engine/context.h"
#include "memfile.h"
#include "model/description.h"
#include "test.h"

enum { PAIR_BYTES = 256, PAIR_VALUES = 256 };

/* A session of no tokens. */
typedef struct pair_session { uint8_t bytes[PAIR_BYTES]; size_t len; } pair_session;

static inline qsf_status pair_write(void *user, const void *bytes, size_t len)
{
    pair_session *s = user;
    if (len > PAIR_BYTES - s->len) return QSF_E_IO;
    memcpy(s->bytes + s->len, bytes, len);
    s->len += len;
    return QSF_OK;
}

static inline bool pair_save(const qsf_context *c, pair_session *s)
{
    qsf_error err = { 0 };
    s->len = 0;
    const qsf_status st = qsf_session_save(c, 0, NULL, 0, pair_write, s, &err);
    CHECK_STR(st ? err.text : "", "");
    return !st;
}

static inline qsf_status pair_load(qsf_context *c, const pair_session *s, qsf_error *err)
{
    memfile f;
    size_t n;
    memfile_init(&f, s->bytes, s->len);
    return qsf_session_load(c, 0, &f.file, NULL, 0, &n, err);
}

/* Whether the context takes the session; a refusal must name the model. */
static inline bool pair_takes(qsf_context *c, const pair_session *s, const char *what)
{
    qsf_error err = { 0 };
    const qsf_status st = pair_load(c, s, &err);
    if (!st) return true;
    if (st != QSF_E_ARGUMENT || !strstr(err.text, "another model")) {
        printf("      %s\n", what);
        CHECK_STR(err.text, "session: it belongs to another model");
    }
    return false;
}

/* Gives the value another one; n_layers gets smaller, as arrays have no more elements. */
static inline void pair_change(const qsf_member *m, void *value)
{
    uint8_t *byte = value;
    uint32_t word;
    switch ((qsf_member_type)m->type) {
    case QSF_MEMBER_TEXT: byte[strlen(value) ? strlen(value) - 1 : 0] ^= 1; break;
    case QSF_MEMBER_BOOL: *(bool *)value = !*(bool *)value; break;
    case QSF_MEMBER_U8: *byte ^= 1; break;
    case QSF_MEMBER_F32:
        memcpy(&word, value, 4);
        word ^= 1;
        memcpy(value, &word, 4);
        break;
    case QSF_MEMBER_U32:
        memcpy(&word, value, 4);
        word += m->at == offsetof(qsf_hparams, n_layers) ? UINT32_MAX : 1;
        memcpy(value, &word, 4);
        break;
    }
}

/* Sets the array's pointer. */
static inline void pair_point(qsf_hparams *hp, const qsf_member *m, void *to)
{
    void *at = (uint8_t *)hp + m->at;
    if (m->type == QSF_MEMBER_F32) *(float **)at = to;
    else if (m->type == QSF_MEMBER_U32) *(uint32_t **)at = to;
    else *(uint8_t **)at = to;
}

/* No array against one, and arrays that differ in their first or their last value. */
static inline void pair_array(qsf_context *c, qsf_hparams *hp, const qsf_member *m, const pair_session *base)
{
    static union { float f[PAIR_VALUES]; uint32_t u[PAIR_VALUES]; uint8_t b[PAIR_VALUES]; } room;
    void *const kept = (void *)(uintptr_t)qsf_member_values(hp, m);
    const uint32_t n = qsf_member_count(hp, m), places[] = { 0, n - 1 };
    const size_t size = m->type == QSF_MEMBER_U8 ? 1 : 4;
    pair_session with;
    CHECK(n > 1 && n <= PAIR_VALUES);
    memset(&room, 0, sizeof room);
    if (kept) memcpy(&room, kept, n * size);
    pair_point(hp, m, &room);
    if (!kept) CHECK(!pair_takes(c, base, m->key));
    if (!pair_save(c, &with)) return;
    CHECK(pair_takes(c, &with, m->key));
    for (size_t i = 0; i < QSF_ARRAY_LEN(places); i++) {
        uint8_t *at = (uint8_t *)&room + places[i] * size;
        uint8_t was[4];
        memcpy(was, at, size);
        pair_change(m, at);
        CHECK(!pair_takes(c, &with, m->key));
        memcpy(at, was, size);
    }
    pair_point(hp, m, kept);
}

/* Each member in turn: a session saved before the change is refused after it, and accepted again
 * when the change is undone. */
static inline void pairs_of_every_member(qsf_context *c)
{
    qsf_hparams *hp = (qsf_hparams *)(uintptr_t)&c->model->source->hp;
    pair_session base;
    if (!pair_save(c, &base)) return;
    for (size_t i = 0; i < qsf_n_members; i++) {
        const qsf_member *m = &qsf_members[i];
        const qsf_hparams kept = *hp;
        if (m->count != QSF_COUNT_ONE) {
            pair_array(c, hp, m, &base);
        } else {
            pair_change(m, (uint8_t *)hp + m->at);
            if (pair_takes(c, &base, m->key)) CHECK_STR(m->key, "refused");
            *hp = kept;
        }
        CHECK(pair_takes(c, &base, m->key));
    }
}

#endif
