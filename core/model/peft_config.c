/* adapter_config.json of a PEFT directory.
 * SPDX-License-Identifier: MIT
 *
 * Members, defaults and what they mean are those of LoraConfig in PEFT's
 * src/peft/tuners/lora/config.py; patterns are found as its get_pattern_key does, modules as its
 * check_target_module_exists. */
#include "model/peft_config.h"

#include "base/text_file.h"
#include "grammar/regex.h"

#if !defined(QSF_NO_CONVERTER)          /* which is who reads Hugging Face's files */

#define PEFT_FILE "adapter_config.json"
enum { PEFT_MAX_NAMES = 16384, PEFT_MAX_PATTERNS = 256, PEFT_MAX_LIST = 4096,
       PEFT_PATTERN_MEMORY = 8 << 20 };

/* ---- members ---- */

/* NULL if the member is missing or null. */
static const qsf_json_node *peft_get(const qsf_json_node *root, const char *key)
{
    const qsf_json_node *v = qsf_json_member(root, key);
    return v && v->type != QSF_JSON_NULL ? v : NULL;
}

/* Whether a member is set: not missing, null, false or empty. */
static bool peft_set(const qsf_json_node *v)
{
    if (!v || v->type == QSF_JSON_NULL || v->type == QSF_JSON_FALSE) return false;
    return v->type == QSF_JSON_TRUE || v->type == QSF_JSON_NUMBER || v->n;
}

static qsf_status peft_expected(const char *dir, const char *key, const char *what, qsf_error *err)
{
    return qsf_fail(err, QSF_E_CORRUPT, "%s/" PEFT_FILE ": \"%s\" is not %s", dir, key, what);
}

static qsf_status peft_number(const qsf_json_node *v, const char *dir, const char *key, float *out,
                              qsf_error *err)
{
    if (v->type != QSF_JSON_NUMBER || !isfinite((float)qsf_json_number(v)))
        return peft_expected(dir, key, "a number", err);
    *out = (float)qsf_json_number(v);
    return QSF_OK;
}

static qsf_status peft_rank(const qsf_json_node *v, const char *dir, const char *key, uint32_t *out,
                            qsf_error *err)
{
    int64_t n;
    if (!qsf_json_whole(v, &n) || n < 1 || n > 1 << 20)
        return peft_expected(dir, key, "a rank, a whole number from 1", err);
    *out = (uint32_t)n;
    return QSF_OK;
}

/* ---- what cannot be run ---- */

/* Members that change what an adapter computes if they are set. */
static const struct { const char *key, *what; } peft_refused[] = {
    { "use_dora", "weights split into magnitude and direction (DoRA)" },
    { "modules_to_save", "whole modules besides the adapters" },
    { "lora_bias", "biases of adapters" },
    { "alora_invocation_tokens", "an activated adapter" },
    { "use_qalora", "QALoRA" },
    { "layer_replication", "layers that occur several times" },
    { "trainable_token_indices", "rows of the embedding besides the adapters" },
    { "target_parameters", "adapters of parameters, as experts have them" },
    { "use_bdlora", "BD-LoRA" },
    { "arrow_config", "Arrow" },
    { "kasa_config", "KaSA" },
    { "velora_config", "VeLoRA" },
    { "monteclora_config", "MonteCLoRA" },
    { "ensure_weight_tying", "adapters that several matrices share" },
};
/* Those that are read here, and those that no answer depends on. */
static const char *const peft_known[] = {
    "peft_type", "r", "lora_alpha", "use_rslora", "bias", "target_modules", "exclude_modules",
    "rank_pattern", "alpha_pattern", "layers_to_transform", "layers_pattern", "fan_in_fan_out",
    "init_lora_weights", "lora_dropout", "task_type", "base_model_name_or_path", "revision", "auto_mapping",
    "inference_mode", "peft_version", "megatron_config", "megatron_core", "loftq_config", "eva_config",
    "corda_config", "lora_ga_config", "qalora_group_size", "runtime_config",
};

static bool peft_knows(const qsf_json_node *key)
{
    for (size_t i = 0; i < QSF_ARRAY_LEN(peft_known); i++)
        if (qsf_json_is_text(key, peft_known[i])) return true;
    for (size_t i = 0; i < QSF_ARRAY_LEN(peft_refused); i++)
        if (qsf_json_is_text(key, peft_refused[i].key)) return true;
    return false;
}

static void peft_tell(const peft_warn *w, const char *fmt, ...)
{
    char line[400];
    va_list args;
    if (!w->tell) return;
    va_start(args, fmt);
    qsf_vformat(line, sizeof line, fmt, args);
    va_end(args);
    w->tell(w->user, line);
}

/* Some initialisations subtract the adapter's initial values from the model's weights: such an
 * adapter requires the remaining weights, which the model's file does not have. */
static qsf_status peft_check_init(const qsf_json_node *root, const char *dir, qsf_error *err)
{
    static const char *const plain[] = { "gaussian", "eva", "orthogonal" };
    const qsf_json_node *v = peft_get(root, "init_lora_weights");
    if (!v || v->type == QSF_JSON_TRUE || v->type == QSF_JSON_FALSE) return QSF_OK;
    for (size_t i = 0; i < QSF_ARRAY_LEN(plain); i++)
        if (qsf_json_is_text(v, plain[i])) return QSF_OK;
    if (v->type != QSF_JSON_TEXT) return peft_expected(dir, "init_lora_weights", "a string", err);
    return qsf_fail(err, QSF_E_UNSUPPORTED, "%s/" PEFT_FILE ": init_lora_weights is \"%.40s\": the adapter "
                    "belongs to weights that are not the model's; save it with PEFT's "
                    "path_initial_model_for_weight_conversion", dir, v->text);
}

static qsf_status peft_check_members(const qsf_json_node *root, const char *dir, const peft_warn *w,
                                     qsf_error *err)
{
    const qsf_json_node *type = peft_get(root, "peft_type"), *bias = peft_get(root, "bias");
    if (!type || !qsf_json_is_text(type, "LORA"))
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s/" PEFT_FILE ": peft_type is \"%.40s\"; this version runs "
                        "adapters of type LORA", dir, type && type->type == QSF_JSON_TEXT ? type->text : "");
    for (size_t i = 0; i < QSF_ARRAY_LEN(peft_refused); i++)
        if (peft_set(qsf_json_member(root, peft_refused[i].key)))
            return qsf_fail(err, QSF_E_UNSUPPORTED, "%s/" PEFT_FILE ": %s: %s, which this version cannot run",
                            dir, peft_refused[i].key, peft_refused[i].what);
    if (bias && !qsf_json_is_text(bias, "none"))
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s/" PEFT_FILE ": bias is \"%.40s\", not \"none\": trained "
                        "biases cannot be run by this version", dir,
                        bias->type == QSF_JSON_TEXT ? bias->text : "");
    const qsf_json_node *key = qsf_json_first(root);
    for (uint32_t i = 0; i < root->n; i++, key = qsf_json_next(qsf_json_next(key)))
        if (!peft_knows(key) && peft_set(qsf_json_next(key)))
            peft_tell(w, "%s/" PEFT_FILE ": \"%.60s\" is not known to this version and is left out", dir,
                      key->text);
    return peft_check_init(root, dir, err);
}

qsf_status qsf_peft_config_read(const qsf_platform *p, const char *dir, qsf_json *j, const peft_warn *w,
                                qsf_error *err)
{
    char *text;
    uint64_t len;
    memset(j, 0, sizeof *j);
    qsf_status st = qsf_text_file_read(p, dir, PEFT_FILE, 4 << 20, &text, &len, err);
    if (st) return st;
    st = qsf_json_read(p, text, (size_t)len, PEFT_FILE, j, err);
    qsf_dealloc(p, text, len + 1);
    if (!st && j->nodes->type != QSF_JSON_OBJECT)
        st = qsf_fail(err, QSF_E_CORRUPT, "%s/" PEFT_FILE ": is not an object", dir);
    if (!st) st = peft_check_members(j->nodes, dir, w, err);
    if (st) qsf_json_drop(j);
    return st;
}

/* ---- patterns ---- */

/* Most patterns are names, in which a dot fits any character. */
static bool peft_plain(const qsf_json_node *pattern)
{
    for (uint32_t i = 0; i < pattern->n; i++) {
        const char c = pattern->text[i];
        const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!letter && c != '_' && c != '.' && !(c >= '0' && c <= '9')) return false;
    }
    return true;
}

static bool peft_plain_fits(const char *name, const qsf_json_node *pattern, bool behind)
{
    const size_t n = strlen(name), first = n - pattern->n;
    if (n < pattern->n || (first && (!behind || name[first - 1] != '.'))) return false;
    for (uint32_t i = 0; i < pattern->n; i++)
        if (pattern->text[i] != '.' && pattern->text[i] != name[first + i]) return false;
    return true;
}

/* Sets met for the modules whose whole name matches the pattern, a regular expression; with the
 * flag set, for those whose last parts match. */
static qsf_status peft_match(const qsf_platform *p, const qsf_json_node *pattern, bool behind,
                             const char *what, peft_module *m, uint32_t n, qsf_arena *tmp, qsf_error *err)
{
    static const char before[] = "(?:.*\\.)?";
    qsf_grammar_builder *b;
    qsf_grammar *g = NULL;
    qsf_matcher *at = NULL;
    qsf_error why = { 0 };
    if (peft_plain(pattern)) {
        for (uint32_t i = 0; i < n; i++) m[i].met = peft_plain_fits(m[i].name, pattern, behind);
        return QSF_OK;
    }
    const size_t cap = pattern->n + sizeof before + 8;
    char *text = qsf_arena_alloc(tmp, cap, "a pattern", err);
    if (!text) return QSF_E_MEMORY;
    const size_t len = qsf_format(text, cap, "%s(?:%s)", behind ? before : "", pattern->text);
    qsf_status st = qsf_grammar_begin(p, &b, &why);
    if (!st) {
        qsf_grammar_limit(b, PEFT_PATTERN_MEMORY);
        st = qsf_grammar_finish(b, qsf_regex_nodes(p, b, text, len, 0, what), &g, &why);
    }
    if (!st) st = qsf_matcher_new(p, g, NULL, &at, &why);
    for (uint32_t i = 0; i < n && !st; i++) {
        const size_t size = strlen(m[i].name);
        qsf_matcher_reset(at);
        m[i].met = qsf_matcher_bytes(at, m[i].name, size) == size && qsf_matcher_whole(at);
    }
    qsf_matcher_free(at);
    qsf_grammar_drop(g);
    if (!st) return QSF_OK;
    return qsf_fail(err, st == QSF_E_MEMORY ? st : QSF_E_UNSUPPORTED, PEFT_FILE ": \"%s\", \"%.80s\": %s",
                    what, pattern->text, why.text);
}

/* rank_pattern or alpha_pattern: the first key that fits a module's name says it. */
static qsf_status peft_pattern(const qsf_json *j, const char *dir, const char *key, bool rank, peft_module *m,
                               uint32_t n, qsf_arena *tmp, qsf_error *err)
{
    const qsf_json_node *map = peft_get(j->nodes, key);
    uint32_t expressions = 0;
    uint8_t *done;
    qsf_status st = QSF_OK;
    if (!map || !peft_set(map)) return QSF_OK;
    if (map->type != QSF_JSON_OBJECT || map->n > PEFT_MAX_NAMES)
        return peft_expected(dir, key, "an object with a value for each pattern", err);
    if (!(done = qsf_arena_alloc(tmp, n, "patterns", err))) return QSF_E_MEMORY;
    const qsf_json_node *k = qsf_json_first(map);
    for (uint32_t i = 0; i < map->n && !st; i++, k = qsf_json_next(qsf_json_next(k))) {
        float alpha = 0;
        uint32_t asked = 0;
        st = rank ? peft_rank(qsf_json_next(k), dir, key, &asked, err)
                  : peft_number(qsf_json_next(k), dir, key, &alpha, err);
        expressions += !peft_plain(k);
        if (expressions > PEFT_MAX_PATTERNS)
            return qsf_fail(err, QSF_E_UNSUPPORTED, "%s/" PEFT_FILE ": \"%s\" has more than %d regular "
                            "expressions", dir, key, (int)PEFT_MAX_PATTERNS);
        if (!st) st = peft_match(j->platform, k, true, key, m, n, tmp, err);
        for (uint32_t x = 0; x < n && !st; x++) {
            if (!m[x].met || done[x]) continue;
            done[x] = 1;
            if (rank) m[x].asked = asked;
            else m[x].alpha = alpha;
        }
    }
    return st;
}

/* ---- which modules ---- */

/* A name, or the last parts of one. */
static bool peft_ends(const char *name, const qsf_json_node *end)
{
    const size_t n = strlen(name);
    if (n < end->n || memcmp(name + n - end->n, end->text, end->n)) return false;
    return n == end->n || name[n - end->n - 1] == '.';
}

/* Sets met of the modules that a list or a regular expression names; with *all it names every
 * linear module. */
static qsf_status peft_named(const qsf_json *j, const char *dir, const char *key, peft_module *m, uint32_t n,
                             const peft_warn *w, qsf_arena *tmp, qsf_error *err)
{
    const qsf_json_node *v = peft_get(j->nodes, key), *x;
    for (uint32_t i = 0; i < n; i++) m[i].met = false;
    if (v->type == QSF_JSON_TEXT) return peft_match(j->platform, v, false, key, m, n, tmp, err);
    if (v->type != QSF_JSON_LIST || v->n > PEFT_MAX_LIST)
        return peft_expected(dir, key, "a list of modules or a regular expression", err);
    x = qsf_json_first(v);
    for (uint32_t i = 0; i < v->n; i++, x = qsf_json_next(x)) {
        bool found = false;
        if (x->type != QSF_JSON_TEXT) return peft_expected(dir, key, "a list of strings", err);
        for (uint32_t k = 0; k < n; k++) {
            if (!peft_ends(m[k].name, x)) continue;
            found = m[k].met = true;
        }
        if (!found && w)
            peft_tell(w, "%s/" PEFT_FILE ": %s names \"%.60s\", which has no weights", dir, key,
                      x->text);
    }
    return QSF_OK;
}

/* The first numeric part of a name after its first two parts; -1: not found. */
static int64_t peft_layer(const char *name)
{
    uint32_t parts = 0;
    for (const char *s = name; *s; s++) {
        const bool first = s == name || s[-1] == '.';
        parts += first;
        if (!first || parts < 3) continue;
        int64_t n = 0;
        const char *end = s;
        for (; *end >= '0' && *end <= '9' && end - s < 9; end++) n = n * 10 + (*end - '0');
        if (end > s && *end == '.') return n;
    }
    return -1;
}

static bool peft_has_layer(const qsf_json_node *v, int64_t layer)
{
    int64_t n;
    if (v->type != QSF_JSON_LIST) return qsf_json_whole(v, &n) && n == layer;
    const qsf_json_node *x = qsf_json_first(v);
    for (uint32_t i = 0; i < v->n; i++, x = qsf_json_next(x))
        if (qsf_json_whole(x, &n) && n == layer) return true;
    return false;
}

static qsf_status peft_stray(const char *dir, const char *module, const char *key, qsf_error *err)
{
    return qsf_fail(err, QSF_E_CORRUPT, "%s: there are weights for \"%.120s\", which is not a module that "
                    "\"%s\" of " PEFT_FILE " names: do the two files belong together?", dir, module, key);
}

/* Every module that has weights is one that the file names. */
static qsf_status peft_check_modules(const qsf_json *j, const char *dir, peft_module *m, uint32_t n,
                                     const peft_warn *w, qsf_arena *tmp, qsf_error *err)
{
    const qsf_json_node *target = peft_get(j->nodes, "target_modules");
    const qsf_json_node *layers = peft_get(j->nodes, "layers_to_transform");
    qsf_status st = QSF_OK;
    if (target && !qsf_json_is_text(target, "all-linear")) {
        if ((st = peft_named(j, dir, "target_modules", m, n, w, tmp, err))) return st;
        for (uint32_t i = 0; i < n; i++)
            if (!m[i].met) return peft_stray(dir, m[i].name, "target_modules", err);
    }
    if (peft_set(peft_get(j->nodes, "exclude_modules"))) {
        if ((st = peft_named(j, dir, "exclude_modules", m, n, NULL, tmp, err))) return st;
        for (uint32_t i = 0; i < n; i++)
            if (m[i].met) return peft_stray(dir, m[i].name, "exclude_modules", err);
    }
    if (!peft_set(layers) || (target && target->type == QSF_JSON_TEXT)) return QSF_OK;
    if (layers->type == QSF_JSON_LIST && layers->n > PEFT_MAX_LIST)
        return peft_expected(dir, "layers_to_transform", "a list of layers", err);
    for (uint32_t i = 0; i < n; i++)
        if (!peft_has_layer(layers, peft_layer(m[i].name)))
            return peft_stray(dir, m[i].name, "layers_to_transform", err);
    return QSF_OK;
}

qsf_status qsf_peft_config_apply(const qsf_json *j, const char *dir, peft_module *m, uint32_t n,
                                 qsf_arena *tmp, const peft_warn *w, float *alpha, qsf_error *err)
{
    const qsf_json_node *root = j->nodes, *r = peft_get(root, "r"), *a = peft_get(root, "lora_alpha");
    const qsf_json_node *stable = peft_get(root, "use_rslora");
    uint32_t rank = 8;
    qsf_status st = QSF_OK;
    *alpha = 8;
    if (stable && stable->type != QSF_JSON_TRUE && stable->type != QSF_JSON_FALSE)
        return peft_expected(dir, "use_rslora", "true or false", err);
    if ((r && (st = peft_rank(r, dir, "r", &rank, err))) ||
        (a && (st = peft_number(a, dir, "lora_alpha", alpha, err)))) return st;
    for (uint32_t i = 0; i < n; i++) {
        m[i].asked = rank;
        m[i].alpha = *alpha;
    }
    if ((st = peft_check_modules(j, dir, m, n, w, tmp, err)) ||
        (st = peft_pattern(j, dir, "rank_pattern", true, m, n, tmp, err)) ||
        (st = peft_pattern(j, dir, "alpha_pattern", false, m, n, tmp, err))) return st;
    for (uint32_t i = 0; i < n; i++) {
        if (m[i].rank != m[i].asked)
            return qsf_fail(err, QSF_E_CORRUPT, "%s: the adapter of \"%.120s\" has rank %u, " PEFT_FILE
                            " says %u", dir, m[i].name, (unsigned)m[i].rank, (unsigned)m[i].asked);
        const float by = (float)m[i].rank;
        m[i].scale = m[i].alpha / (stable && stable->type == QSF_JSON_TRUE ? sqrtf(by) : by);
    }
    return QSF_OK;
}
#undef PEFT_FILE

#endif
