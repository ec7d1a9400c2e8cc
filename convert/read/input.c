/* What the converter reads, by what is there: a model file or a Hugging Face directory.
 * SPDX-License-Identifier: MIT */
#include "read/input.h"

#include "model/roles.h"
#include "read/hf.h"
#include "read/source_input.h"

bool qsf_input_is_matrix(const input_tensor *t)
{
    const qsf_role *role = qsf_role_of(t->kind);
    return role && role->use == QSF_USE_MATRIX;
}

static bool input_ends_with(const char *s, const char *end)
{
    const size_t n = strlen(s), m = strlen(end);
    return n >= m && !strcmp(s + n - m, end);
}

static bool input_has_config(const qsf_platform *p, const char *dir)
{
    char path[4096];
    qsf_file *f;
    if (qsf_format(path, sizeof path, "%s/config.json", dir) >= sizeof path || !p->open ||
        p->open(p->user, path, &f)) return false;
    p->close(p->user, f);
    return true;
}

/* Neither a file nor a model's directory; *err already reports that it could not be opened. */
static qsf_status input_refuse(const qsf_platform *p, const char *path, qsf_status st, qsf_error *err)
{
    const char *why = st == QSF_E_IO ? qsf_host_why(p, path, false, st) : "";
    if (strncmp(why, "is a ", 5)) return st;
    return qsf_fail(err, st, "%s: %s; the input is a GGUF or QSF file, or a Hugging Face directory with "
                    "config.json, tokenizer and weights", path, why);
}

qsf_status qsf_input_open(const qsf_platform *p, const char *path, input **out, qsf_error *err)
{
    return qsf_input_open_as(p, path, QSF_I2S_AUTO, false, out, err);
}

qsf_status qsf_input_open_as(const qsf_platform *p, const char *path, qsf_i2s_layout i2s, bool mtp,
                             input **out, qsf_error *err)
{
    qsf_file *f = NULL;
    uint64_t len = 0;
    uint8_t magic[4] = { 0 };
    *out = NULL;
    if (input_ends_with(path, ".safetensors") || input_ends_with(path, ".bin"))
        return qsf_fail(
            err, QSF_E_UNSUPPORTED,
            "%s: give the model's directory (with config.json and tokenizer.json), not a weight file", path);
    /* A directory cannot be opened and read as a file on any system. */
    qsf_status st = qsf_host_open(p, path, &f, &len, err);
    if (st) return input_has_config(p, path) ? qsf_input_open_hf(p, path, mtp, out, err)
        : input_refuse(p, path, st, err);
    st = len >= sizeof magic ? qsf_read_all(p, f, path, 0, magic, sizeof magic, err) : QSF_OK;
    p->close(p->user, f);
    if (st) return st;
    if (!memcmp(magic, "GGUF", 4) || !memcmp(magic, "QSF1", 4) || !memcmp(magic, "1FSQ", 4))
        return qsf_input_open_source_as(p, path, i2s, mtp, out, err);
    return qsf_fail(err, QSF_E_CORRUPT, "%s: %s", path,
                    len ? "neither a GGUF or QSF file nor a Hugging Face directory" : "is empty");
}
