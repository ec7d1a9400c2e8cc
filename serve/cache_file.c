/* Kept sequences in a file, for the next start: each as a session with its length before it.
 * SPDX-License-Identifier: MIT
 *
 * The file is written under a temporary name next to it and renamed, so it is the old one or the
 * new one, never a part.  Sequences with adapters are not saved.  A session that is damaged or
 * belongs to another model ends the reading; what was read before it stays. */
#include "scheduler.h"
#include "system.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char cache_magic[16] = "QSF sequences 1";

/* A stretch of the file, as a file of its own. */
typedef struct cache_part { FILE *file; uint64_t at; } cache_part;

static qsf_status cache_read(void *user, uint64_t at, void *dst, size_t len)
{
    const cache_part *p = user;
    if (fseeko(p->file, (off_t)(p->at + at), SEEK_SET) || fread(dst, 1, len, p->file) != len) return QSF_E_IO;
    return QSF_OK;
}

static qsf_status cache_write(void *user, const void *bytes, size_t len)
{
    return fwrite(bytes, 1, len, user) == len ? QSF_OK : QSF_E_IO;
}

/* Reads one session into a free sequence; false: no sequence is free, or it was refused (*err). */
static bool cache_take(seq_pool *p, const qsf_custom_file *part, int32_t *ids, size_t cap, qsf_error *err)
{
    size_t n;
    uint32_t s = 0;
    while (s < p->n_seqs && qsf_schedule_seq(p->schedule, (qsf_seq)s)->use) s++;
    if (s == p->n_seqs) return false;
    if (qsf_session_load(p->context, (qsf_seq)s, part, ids, cap, &n, err)
        || qsf_turn_hold(p->seqs[s].turn, ids, n)) {
        seq_give_back(p, s);
        return false;
    }
    qsf_schedule_use(p->schedule, (qsf_seq)s, QSF_SEQ_RUNS, 0);
    seq_keep(p, s, 0, 0);
    return true;
}

bool cache_file_ours(const char *path)
{
    char magic[sizeof cache_magic];
    FILE *f = fopen(path, "rb");
    if (!f) return true;
    const size_t n = fread(magic, 1, sizeof magic, f);
    const bool ours = !ferror(f) && !memcmp(magic, cache_magic, n);     /* the empty file, too */
    fclose(f);
    return ours;
}

unsigned cache_file_load(seq_pool *p, const char *path, uint32_t n_ctx, qsf_error *err)
{
    char magic[sizeof cache_magic];
    uint64_t at = sizeof magic, len;
    unsigned n = 0;
    FILE *f = fopen(path, "rb");
    int32_t *ids = calloc(n_ctx, sizeof *ids);
    cache_part part = { .file = f };
    qsf_custom_file file = { .size = sizeof file, .user = &part, .read = cache_read };
    *err = (qsf_error){ .status = QSF_OK };
    if (f && ids && fread(magic, 1, sizeof magic, f) == sizeof magic && !memcmp(magic, cache_magic,
        sizeof magic)) {
        while (!fseeko(f, (off_t)at, SEEK_SET) && fread(&len, sizeof len, 1, f) == 1
               && len < (uint64_t)1 << 40) {
            part.at = at + sizeof len;
            file.length = len;
            if (!cache_take(p, &file, ids, n_ctx, err)) break;
            at = part.at + len;
            n++;
        }
    }
    if (f) fclose(f);
    free(ids);
    seq_pool_blocks(p);
    return n;
}

/* The kept sequence that was used first after `used`; -1: none. */
static int32_t cache_next(const seq_pool *p, uint64_t used)
{
    int32_t best = -1;
    for (uint32_t i = 0; i < p->n_seqs; i++) {
        const qsf_seq_state *q = qsf_schedule_seq(p->schedule, (qsf_seq)i);
        if (q->use == QSF_SEQ_KEPT && !p->loras[i].n && q->used > used
            && (best < 0 || q->used < qsf_schedule_seq(p->schedule, best)->used)) best = (int32_t)i;
    }
    return best;
}

static bool cache_write_all(const seq_pool *p, FILE *f)
{
    uint64_t used = 0;
    bool ok = fwrite(cache_magic, 1, sizeof cache_magic, f) == sizeof cache_magic;
    for (int32_t s; ok && (s = cache_next(p, used)) >= 0; used = qsf_schedule_seq(p->schedule, s)->used) {
        size_t n;
        const int32_t *ids = qsf_turn_tokens(p->seqs[s].turn, &n);
        const uint64_t len = qsf_session_bytes(p->context, s);
        ok = fwrite(&len, sizeof len, 1, f) == 1
            && !qsf_session_save(p->context, s, ids, n, cache_write, f, NULL);
    }
    return ok && system_flush(f);
}

bool cache_file_save(const seq_pool *p, const char *path)
{
    char beside[4096];
    if ((size_t)snprintf(beside, sizeof beside, "%s.new", path) >= sizeof beside) return false;
    FILE *f = fopen(beside, "wb");
    if (!f) return false;
    bool ok = cache_write_all(p, f);
    ok &= !fclose(f);
    if (!ok || !system_replace(beside, path)) {
        remove(beside);
        return false;
    }
    return true;
}
