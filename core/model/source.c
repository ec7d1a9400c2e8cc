/* Opens a model file by its magic and reads from it; what the formats have in common.
 * SPDX-License-Identifier: MIT */
#include "kernels.h"
#include "model/roles.h"
#include "model/source_formats.h"
#include "model/source_read.h"

/* ---- how files are read ---- */

/* The host's table as far as the host has it: members beyond its size stay NULL. */
static void io_of_platform(const qsf_platform *p, qsf_platform *io)
{
    memset(io, 0, sizeof *io);
    memcpy(io, p, QSF_MIN(p->size, sizeof *io));
    io->size = sizeof *io;
}

/* A caller's own file as a platform that has this one file.  It blocks, so a read is over as soon
 * as it began: the handle of a read says no more than "went well". */
static qsf_status io_custom_length(void *user, qsf_file *f, uint64_t *out)
{
    (void)f;
    *out = ((qsf_custom_file *)user)->length;
    return QSF_OK;
}

static qsf_status io_custom_read_start(void *user, qsf_file *f, uint64_t at, void *dst, size_t len,
                                       qsf_read **out)
{
    qsf_custom_file *c = user;
    (void)f;
    *out = NULL;
    if (at > c->length || len > c->length - at) return QSF_E_IO;
    const qsf_status st = len ? c->read(c->user, at, dst, len) : QSF_OK;
    if (!st) *out = (qsf_read *)user;
    return st == QSF_PENDING ? QSF_E_IO : st;
}

static qsf_status io_custom_read_end(void *user, qsf_read *r)
{
    (void)user;
    (void)r;
    return QSF_OK;
}

static void io_custom_close(void *user, qsf_file *f)
{
    qsf_custom_file *c = user;
    if (f && c->close) c->close(c->user);
}

static void io_of_custom(qsf_custom_file *c, qsf_platform *io)
{
    memset(io, 0, sizeof *io);
    io->size = sizeof *io;
    io->user = c;
    io->close = io_custom_close;
    io->length = io_custom_length;
    io->read_start = io_custom_read_start;
    io->read_poll = io_custom_read_end;
    io->read_wait = io_custom_read_end;
    io->reads_cross_threads = true;
}

/* ---- opening ---- */

bool qsf_i2s_layout_find(const char *name, qsf_i2s_layout *out)
{
    static const char *const names[QSF_N_I2S_LAYOUTS] = {
        "auto", "qk256", "split32", "bitnet32", "microsoft", "microsoft-arm", "microsoft-rows4",
    };
    for (uint32_t i = 0; name && i < QSF_N_I2S_LAYOUTS; i++) {
        if (strcmp(names[i], name)) continue;
        *out = (qsf_i2s_layout)i;
        return true;
    }
    return false;
}

/* A directory is not a model file, but one with a config.json can be converted.
 * Otherwise the message stays unchanged. */
static qsf_status source_refuse(const qsf_source *s, qsf_status st, qsf_error *err)
{
    char config[1024];
    qsf_file *f;
    if (!s->io->open || qsf_format(config, sizeof config, "%s/config.json", s->path) >= sizeof config)
        return st;
    if (s->io->open(s->io->user, config, &f)) return st;
    s->io->close(s->io->user, f);
    return qsf_fail(err, QSF_E_UNSUPPORTED,
                    "%s: is a directory with a Hugging Face model, not a model file; convert it: qsf-convert "
                    "%s model.qsf", s->path, s->path);
}

static qsf_status source_read_magic(qsf_source *s, qsf_error *err)
{
    uint8_t magic[4];
    if (s->lengths[0] < sizeof magic) return qsf_source_stranger(s, err);
    const qsf_status st = qsf_source_read(s, 0, 0, magic, sizeof magic, "the first bytes", err);
    if (st) return st;
    if (!memcmp(magic, "GGUF", 4)) {
        s->format = "GGUF";
        return qsf_gguf_open(s, err);
    }
    if (!memcmp(magic, "QSF1", 4)) {
        s->format = "QSF";
        return qsf_qsf_open(s, err);
    }
    return qsf_source_stranger(s, err);
}

/* Everything before the first byte is read.  A custom file becomes s's once s->n_files is 1. */
static qsf_status source_prepare(qsf_source *s, const char *path, const qsf_custom_file *custom,
                                 qsf_error *err)
{
    qsf_platform *io = qsf_arena_alloc(s->arena, sizeof *io, "a model file", err);
    qsf_custom_file *own = custom ? qsf_arena_alloc(s->arena, sizeof *own, "a model file", err) : NULL;
    if (!io || (custom && !own)) return QSF_E_MEMORY;
    if (!path) path = "(custom file)";
    if (!(s->path = qsf_arena_text(s->arena, path, strlen(path), err))) return QSF_E_MEMORY;
    if (!(s->files = qsf_arena_array(s->arena, QSF_MAX_SPLITS, sizeof *s->files, "a list of files", err)))
        return QSF_E_MEMORY;
    if (!(s->lengths = qsf_arena_array(s->arena, QSF_MAX_SPLITS, sizeof *s->lengths, "a list of files", err)))
        return QSF_E_MEMORY;
    if (!(s->paths = qsf_arena_array(s->arena, QSF_MAX_SPLITS, sizeof *s->paths, "a list of files", err)))
        return QSF_E_MEMORY;
    s->io = io;
    if (!custom) {
        io_of_platform(s->platform, io);
        const qsf_status st = qsf_source_add_file(s, s->path, err);
        return st ? source_refuse(s, st, err) : QSF_OK;
    }
    *own = *custom;
    io_of_custom(own, io);
    s->files[0] = (qsf_file *)(void *)own;       /* never looked into, but not NULL */
    s->lengths[0] = own->length;
    s->paths[0] = s->path;
    s->n_files = 1;
    return QSF_OK;
}

/* Names that programs display.  Metadata keep their bytes, like tokens and templates. */
static void source_names(qsf_source *s)
{
    qsf_visible(s->hp.arch);
    qsf_visible(s->hp.name);
    qsf_visible(s->vocab.pre);
    for (uint32_t i = 0; i < s->vocab.n_more; i++) qsf_visible(s->vocab.more[i].name);
}

qsf_status qsf_source_open(const qsf_platform *p, const char *path, const qsf_custom_file *custom,
                           bool vocab_only, qsf_source **out, qsf_error *err)
{
    return qsf_source_open_as(p, path, custom, vocab_only, QSF_I2S_AUTO, out, err);
}

qsf_status qsf_source_open_bare(const qsf_platform *p, const char *path, const qsf_custom_file *custom,
                                qsf_source **out, qsf_error *err)
{
    qsf_status st;
    qsf_arena *arena = NULL;
    qsf_source *s = *out = NULL;

    if (!path && !custom) return qsf_fail(err, QSF_E_ARGUMENT, "no path of a model file");
    if ((st = qsf_arena_new(p, &arena, err))) goto fail;
    if (!(s = qsf_arena_alloc(arena, sizeof *s, "a model file", err))) {
        st = QSF_E_MEMORY;
        goto fail;
    }
    s->arena = arena;
    s->platform = p;
    s->crc32 = qsf_crc32_best(p->cpu_features ? p->cpu_features(p->user) : 0);
    if ((st = source_prepare(s, path, custom, err))) goto fail;
    *out = s;
    return QSF_OK;
fail:
    if (custom && custom->close && (!s || s->n_files == 0)) custom->close(custom->user);
    if (s) qsf_source_close(s);
    else qsf_arena_free(arena);
    return st;
}

static qsf_status source_open(const qsf_platform *p, const char *path, const qsf_custom_file *custom,
                              bool vocab_only, bool mtp, qsf_i2s_layout i2s, qsf_source **out, qsf_error *err)
{
    qsf_source *s = *out = NULL;
    if ((uint32_t)i2s >= QSF_N_I2S_LAYOUTS) {
        if (custom && custom->close) custom->close(custom->user);
        return qsf_fail(err, QSF_E_ARGUMENT, "unknown layout %d of I2_S", (int)i2s);
    }
    qsf_status st = qsf_source_open_bare(p, path, custom, &s, err);
    if (st) return st;
    s->vocab_only = vocab_only;
    s->mtp = mtp;
    s->i2s_layout = (uint8_t)i2s;
    if ((st = source_read_magic(s, err))) {
        qsf_source_close(s);
        return st;
    }
    source_names(s);
    *out = s;
    return QSF_OK;
}

qsf_status qsf_source_open_as(const qsf_platform *p, const char *path, const qsf_custom_file *custom,
                              bool vocab_only, qsf_i2s_layout i2s, qsf_source **out, qsf_error *err)
{
    return source_open(p, path, custom, vocab_only, false, i2s, out, err);
}

qsf_status qsf_source_open_mtp(const qsf_platform *p, const char *path, const qsf_custom_file *custom,
                               qsf_i2s_layout i2s, qsf_source **out, qsf_error *err)
{
    return source_open(p, path, custom, false, true, i2s, out, err);
}

qsf_status qsf_source_read_by(const qsf_source *s, qsf_io io, bool streams, const char **how, qsf_error *err)
{
    static const char *const names[] = { "auto", "uring", "pread", "mmap" };
    qsf_status st = s->io->read_by || io == QSF_IO_AUTO ? QSF_OK : QSF_E_UNSUPPORTED;
    *how = NULL;
    if ((uint32_t)io >= QSF_ARRAY_LEN(names))
        return qsf_fail(err, QSF_E_ARGUMENT, "unknown way %d of reading files", (int)io);
    for (uint32_t i = 0; !st && s->io->read_by && i < s->n_files; i++)
        st = s->io->read_by(s->io->user, s->files[i], io, streams, how);
    if (!st) return QSF_OK;
    *how = NULL;
    return qsf_fail(err, st, "%s: this machine cannot read it by %s; use auto", s->path, names[io]);
}

void qsf_source_close(qsf_source *s)
{
    if (!s) return;
    for (uint32_t i = 0; i < s->n_files; i++) s->io->close(s->io->user, s->files[i]);
    qsf_arena_free(s->arena);                    /* s with it */
}

/* ---- units ---- */

qsf_status qsf_unit_check_timed(const qsf_source *s, uint32_t unit, const void *stored, void *raw,
                                unsigned check, qsf_unit_times *t, qsf_error *err)
{
    const qsf_unit *u = &s->units[unit];
    if (u->compression == QSF_COMPRESS_NONE && !u->has_crc) return QSF_OK;
    return qsf_qsf_unit_check(s, unit, stored, raw, check, t, err);
}

qsf_status qsf_unit_check(const qsf_source *s, uint32_t unit, const void *stored, void *raw, qsf_error *err)
{
    qsf_unit_times t = { 0 };
    return qsf_unit_check_timed(s, unit, stored, raw, QSF_CHECK_CRC, &t, err);
}

/* Reads bytes [at, at+len) of a unit's stored bytes. */
static qsf_status unit_read(const qsf_source *s, const qsf_unit *u, uint64_t at, uint64_t len, void *dst,
                            qsf_error *err)
{
    for (uint32_t i = 0; i < u->n_extents; i++) {
        const qsf_extent *x = &s->extents[u->first_extent + i];
        const uint64_t from = QSF_MAX(x->to, at), end = QSF_MIN(x->to + x->len, at + len);
        if (from >= end) continue;
        const qsf_status st = qsf_source_read(s, x->file, x->at + (from - x->to),
                                              (uint8_t *)dst + (from - at), end - from, "weights", err);
        if (st) return st;
    }
    return QSF_OK;
}

/* For units that can be checked or decompressed only as a whole. */
static qsf_status load_through_unit(const qsf_source *s, uint32_t unit, const qsf_tensor *t, uint64_t place,
                                    void *dst, qsf_error *err)
{
    const qsf_unit *u = &s->units[unit];
    const bool packed = u->compression != QSF_COMPRESS_NONE;
    qsf_status st = QSF_E_MEMORY;
    uint8_t *stored = qsf_alloc(s->platform, u->stored, "a unit of the model", err), *raw = NULL;
    if (!stored) goto done;
    if (packed && !(raw = qsf_alloc(s->platform, u->raw, "a unit of the model", err))) goto done;
    if ((st = unit_read(s, u, 0, u->stored, stored, err))) goto done;
    if ((st = qsf_unit_check(s, unit, stored, raw, err))) goto done;
    memcpy(dst, (packed ? raw : stored) + place, (size_t)t->bytes);
done:
    qsf_dealloc(s->platform, raw, u->raw);
    qsf_dealloc(s->platform, stored, u->stored);
    return st;
}

qsf_status qsf_source_load(const qsf_source *s, uint32_t unit, uint32_t tensor, void **data, qsf_error *err)
{
    const qsf_unit *u = &s->units[unit];
    const qsf_tensor *t = &s->tensors[u->first_tensor + tensor];
    const uint64_t place = s->places[u->first_tensor + tensor];
    qsf_status st;

    *data = NULL;
    void *mem = qsf_alloc(s->platform, t->bytes, qsf_kind_name(t->kind), err);
    if (!mem) return QSF_E_MEMORY;
    if (u->has_crc || u->compression != QSF_COMPRESS_NONE)
        st = load_through_unit(s, unit, t, place, mem, err);
    else st = unit_read(s, u, place, t->bytes, mem, err);
    if (st) {
        qsf_dealloc(s->platform, mem, t->bytes);
        return st;
    }
    *data = mem;
    return QSF_OK;
}
