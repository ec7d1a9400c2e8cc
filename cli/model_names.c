/* Models by name: the table of options, and progress on standard error.
 * SPDX-License-Identifier: MIT */
#include "model_names.h"

#include "name.h"
#include "run.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define AT(member) offsetof(model_settings, member)
static const option model_rows[] = {
    OPTION_HEADING("hub", "Models by name (docs/hub.md)"),
    { OPTION_LIST, "-hf -hfr --hf-repo", "NAME", AT(names), 0, 0, NULL,
      "model of Hugging Face's hub, downloaded once: OWNER/REPO[:QUANTISATION | /FILE][@REVISION]; the same "
      "as a model hf:NAME; without more, Q4_K_M or the largest with 4 bits that fits in memory", NULL },
    { OPTION_TEXT, "--hub", "URL", AT(hub), 0, 0, NULL,
      "address of the hub, or of a mirror", "HF_ENDPOINT, else https://huggingface.co" },
    { OPTION_FLAG, "--offline", NULL, AT(offline), 0, 0, NULL,
      "take models from the cache only, as HF_HUB_OFFLINE=1 does", NULL },
};
#undef AT

option_part model_names_options(size_t base)
{
    option_part p = OPTION_PART(model_rows, 0);
    p.base = base;
    return p;
}

/* ---- texts that live as long as the program ---- */

static char *model_texts[4 * OPTION_LIST_MAX];
static size_t n_model_texts;

static const char *text_kept(char *text)
{
    if (!text || n_model_texts == sizeof model_texts / sizeof model_texts[0]) return free(text), NULL;
    return model_texts[n_model_texts++] = text;
}

int model_names_add(const model_settings *m, option_list *to)
{
    for (size_t i = 0; i < m->names.n; i++) {
        const char *name = m->names.items[i];
        const size_t len = strlen(name) + 4;
        char *whole = hub_is_name(name) ? NULL : malloc(len);
        if (whole) snprintf(whole, len, "hf:%s", name);
        if (!hub_is_name(name) && !(name = text_kept(whole)))
            return fputs("out of memory\n", stderr), EXIT_NO_MEMORY;
        if (to->n == OPTION_LIST_MAX)
            return fprintf(stderr, "more than %d models\n", OPTION_LIST_MAX), EXIT_USAGE;
        to->items[to->n++] = name;
    }
    return EXIT_OK;
}

bool model_names_valid(const char *text)
{
    char whole[300];
    hub_name name;
    qsf_error err;
    if (hub_name_begins(text)) return hub_name_read(text, &name, &err) == QSF_OK;
    const int n = snprintf(whole, sizeof whole, "hf:%s", text);
    return n < (int)sizeof whole && hub_name_read(whole, &name, &err) == QSF_OK;
}

/* ---- progress ---- */

typedef struct progress_line { uint64_t begin_ns, shown_ns, begin_bytes; } progress_line;

static void progress_note(void *user, const char *line)
{
    (void)user;
    fprintf(stderr, "%s%s\n", terminal_moves(stderr) ? "\r\033[K" : "", line);
}

static atomic_bool progress_quiet;

static bool progress_stopped(void *user)
{
    (void)user;
    return interrupted() && !atomic_load(&progress_quiet);
}

static void progress_time(char *out, size_t cap, double seconds)
{
    const unsigned long s = seconds < 1e7 ? (unsigned long)(seconds + 0.5) : 9999999;
    if (s < 3600) snprintf(out, cap, "%lu:%02lu", s / 60, s % 60);
    else snprintf(out, cap, "%lu:%02lu:%02lu", s / 3600, s / 60 % 60, s % 60);
}

static void progress_begin(progress_line *l, const hub_progress *p)
{
    char of[48] = "", from[48] = "";
    *l = (progress_line){ .begin_ns = clock_ns(), .begin_bytes = p->done };
    if (p->n_parts > 1) snprintf(of, sizeof of, ", part %u of %u", p->part, p->n_parts);
    if (p->done) snprintf(from, sizeof from, "; %.1f MB of it are here", (double)p->done / 1e6);
    fprintf(stderr, "downloading %s (%.1f MB%s)%s\n", p->name, (double)p->total / 1e6, of, from);
}

void model_names_quiet(bool quiet)
{
    const bool was = atomic_exchange(&progress_quiet, quiet);
    if (quiet && !was && terminal_moves(stderr)) fputs("\r\033[K", stderr);
}

static void progress_show(void *user, const hub_progress *p)
{
    static progress_line l;
    const uint64_t now = clock_ns();
    (void)user;
    if (atomic_load(&progress_quiet)) return;
    if (p->what == HUB_BEGINS) progress_begin(&l, p);
    else if (terminal_moves(stderr) && p->what == HUB_ENDS) fputs("\r\033[K", stderr);
    else if (terminal_moves(stderr) && now - l.shown_ns > 100000000) {
        char left[32] = "";
        const double s = (double)(now - l.begin_ns) / 1e9, rate = (double)(p->done - l.begin_bytes) / s;
        const uint64_t total = p->total > p->done ? p->total : p->done;
        progress_time(left, sizeof left, rate > 0 ? (double)(total - p->done) / rate : 0);
        fprintf(stderr, "\r%3.0f %%  %.1f of %.1f MB  %.1f MB/s  %s left\033[K", 100.0 * (double)p->done
                / (double)(total ? total : 1), (double)p->done / 1e6, (double)total / 1e6, rate / 1e6, left);
        l.shown_ns = now;
    }
    fflush(stderr);
}

/* ---- memory ---- */

static qsf_status memory_read(void *user, uint64_t at, void *dst, size_t len)
{
    return hub_head_read(user, at, dst, len);
}

uint64_t model_names_memory(hub_head *h)
{
    const qsf_custom_file file = { .size = sizeof file, .user = h, .length = hub_head_size(h),
                                   .read = memory_read };
    qsf_model_options o;
    qsf_context_options context;
    qsf_plan plan = { .size = sizeof plan };
    qsf_model *m;
    qsf_error err;
    qsf_model_defaults(&o);
    o.file = &file;
    if (qsf_model_open("model", &o, &m, &err)) return 0;
    qsf_context_defaults(&context);
    const qsf_status st = qsf_context_plan(m, &context, &plan, &err);
    qsf_model_close(m);
    return st ? 0 : plan.total;
}

/* ---- names into paths ---- */

hub_options model_names_hub(const model_settings *m, uint64_t budget)
{
    return (hub_options){ .address = m->hub, .offline = m->offline, .memory = budget,
                          .progress = progress_show, .note = progress_note, .stopped = progress_stopped,
                          .memory_of = model_names_memory };
}

int model_names_find(const model_settings *m, const char **model, uint64_t budget)
{
    const hub_options o = model_names_hub(m, budget);
    qsf_error err;
    char *path;
    const char *equals = *model && !hub_is_name(*model) ? strchr(*model, '=') : NULL;
    const char *name = equals ? equals + 1 : *model;        /* of "NAME=hf:..." */
    if (!name || !hub_is_name(name)) return EXIT_OK;
    if (hub_find(&o, name, &path, &err)) return report(&err);
    const size_t prefix = (size_t)(name - *model), len = strlen(path) + 1;
    char *whole = realloc(path, prefix + len);
    if (whole) {
        memmove(whole + prefix, whole, len);
        memcpy(whole, *model, prefix);
    } else free(path);
    *model = text_kept(whole);
    return *model ? EXIT_OK : EXIT_NO_MEMORY;
}

int model_names_find_all(const model_settings *m, option_list *models, uint64_t budget)
{
    int code = EXIT_OK;
    for (size_t i = 0; !code && i < models->n; i++) code = model_names_find(m, &models->items[i], budget);
    return code;
}
