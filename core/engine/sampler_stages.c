/* The stages of a sampler by name and by letter, as llama.cpp calls them.
 * SPDX-License-Identifier: MIT */
#include "engine/sampler_stages.h"

#include "base/host.h"

#if !defined(QSF_NO_SAMPLER_ORDER)

/* A stage's letter, then its names without separators. */
static const char *const stage_names[] = {
    "e penalties", "d dry", "s topnsigma", "t temperature temp", "m minp", "k topk",
    "y typicalp typical typp typ", "p topp nucleus", "x xtc",
};

enum { STAGE_NAME = 16 };

/* The name in lower case, without '_', '-' and spaces; false: too long to be one. */
static bool stage_plain(const char *name, size_t len, char out[STAGE_NAME])
{
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        const char c = name[i];
        if (c == '_' || c == '-' || c == ' ') continue;
        if (n == STAGE_NAME - 1) return false;
        out[n++] = (char)(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
    }
    out[n] = 0;
    return n > 0;
}

/* The letter of a stage; 0: no stage has this name. */
static char stage_letter(const char *name, size_t len)
{
    char plain[STAGE_NAME];
    if (!stage_plain(name, len, plain)) return 0;
    const size_t n = strlen(plain);
    for (size_t i = 0; i < QSF_ARRAY_LEN(stage_names); i++)
        for (const char *at = stage_names[i] + 2; *at;) {
            size_t here = 0;
            while (at[here] && at[here] != ' ') here++;
            if (here == n && !memcmp(at, plain, n)) return *stage_names[i];
            at += here + (at[here] == ' ');
        }
    return 0;
}

static bool stage_is_letter(char c)
{
    return c && memchr(QSF_SAMPLER_STAGES, c, sizeof QSF_SAMPLER_STAGES - 1);
}

static qsf_status stages_refuse(const char *name, size_t len, qsf_error *err)
{
    return qsf_fail(err, QSF_E_ARGUMENT, "samplers: unknown stage \"%.*s\"; stages are penalties, dry, "
                    "top_n_sigma, temperature, min_p, top_k, typ_p, top_p and xtc, or their letters "
                    QSF_SAMPLER_STAGES, (int)QSF_MIN(len, 40), name);
}

qsf_status qsf_sampler_stages(const char *text, char out[QSF_SAMPLER_ORDER], qsf_error *err)
{
    const size_t len = strlen(text);
    char order[QSF_SAMPLER_ORDER] = "";
    size_t n = 0, letters = 0;
    while (stage_is_letter(text[letters])) letters++;
    const bool as_letters = letters == len && !stage_letter(text, len);
    for (size_t at = 0, end; at < len; at = end + !as_letters) {
        end = at + as_letters;
        while (!as_letters && end < len && text[end] != ';' && text[end] != ',') end++;
        const char letter = as_letters ? text[at] : stage_letter(text + at, end - at);
        if (!letter) return stages_refuse(text + at, end - at, err);
        if (n == QSF_SAMPLER_ORDER - 1)
            return qsf_fail(err, QSF_E_ARGUMENT, "samplers: more than %d stages", QSF_SAMPLER_ORDER - 1);
        order[n++] = letter;
    }
    memcpy(out, order, sizeof order);
    return QSF_OK;
}

qsf_status qsf_sampler_stages_check(const char order[QSF_SAMPLER_ORDER], qsf_error *err)
{
    for (size_t i = 0; i < QSF_SAMPLER_ORDER; i++) {
        if (!order[i]) return QSF_OK;
        if (!stage_is_letter(order[i])) return stages_refuse(order + i, 1, err);
    }
    return qsf_fail(err, QSF_E_ARGUMENT, "samplers: more than %d stages", QSF_SAMPLER_ORDER - 1);
}

#endif
