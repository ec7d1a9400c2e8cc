/* Adapters of the models: files, lists, and sets of them.
 * SPDX-License-Identifier: MIT */
#include "lora_list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- one adapter ---- */

serve_adapter *adapter_new(const char *name, const char *path, float scale, serve_metrics *metrics)
{
    serve_adapter *a = calloc(1, sizeof *a);
    if (!a || !(a->path = malloc(strlen(path) + 1))) return free(a), NULL;
    strcpy(a->path, path);
    snprintf(a->name, sizeof a->name, "%s", name);
    atomic_store(&a->holders, 1);
    a->scale = scale;
    a->metrics = metrics;
    return a;
}

void adapter_let_go(serve_adapter *a)
{
    if (!a || atomic_fetch_sub(&a->holders, 1) > 1) return;
    adapter_close(a);
    if (a->gone_at) a->gone_at(a->id);
    free(a->path);
    free(a);
}

qsf_status adapter_open(serve_adapter *a, qsf_model *m, bool exact)
{
    const qsf_adapter_options o = { .size = sizeof o, .exact = exact, .number = a->id };
    a->err = (qsf_error){ 0 };
    a->err.status = qsf_adapter_open(m, a->path, &o, &a->adapter, &a->err);
    if (a->err.status) return a->err.status;
    a->info = (qsf_adapter_info){ .size = sizeof a->info };
    qsf_adapter_get_info(a->adapter, &a->info);
    metric_add(&a->metrics->adapters, 1);
    metric_add(&a->metrics->adapter_bytes, a->info.bytes);
    return QSF_OK;
}

void adapter_close(serve_adapter *a)
{
    if (!a->adapter) return;
    qsf_adapter_free(a->adapter);
    a->adapter = NULL;
    metric_sub(&a->metrics->adapters, 1);
    metric_sub(&a->metrics->adapter_bytes, a->info.bytes);
}

/* ---- lists ---- */

bool lora_list_add(lora_list *l, serve_adapter *a)
{
    if (l->n == LORA_LIST) return false;
    l->items[l->n++] = a;
    return true;
}

static bool adapter_is_gone(const serve_adapter *a)
{
    return atomic_load_explicit(&a->gone, memory_order_relaxed);
}

serve_adapter *lora_list_named(const lora_list *l, const char *name)
{
    for (unsigned i = 0; i < l->n; i++)
        if (!adapter_is_gone(l->items[i]) && !strcmp(l->items[i]->name, name)) return l->items[i];
    return NULL;
}

serve_adapter *lora_list_numbered(const lora_list *l, uint64_t id)
{
    for (unsigned i = 0; i < l->n; i++)
        if (!adapter_is_gone(l->items[i]) && l->items[i]->id == id) return l->items[i];
    return NULL;
}

qsf_status lora_list_open(lora_list *l, qsf_model *m, bool exact, uint64_t *bytes, qsf_error *err)
{
    *bytes = 0;
    for (unsigned i = 0; i < l->n; i++) {
        if (adapter_open(l->items[i], m, exact)) {
            *err = l->items[i]->err;
            return err->status;
        }
        *bytes += l->items[i]->info.bytes;
    }
    return QSF_OK;
}

void lora_list_close(lora_list *l)
{
    for (unsigned i = 0; i < l->n; i++) adapter_close(l->items[i]);
}

void lora_list_sweep(lora_list *l)
{
    unsigned n = 0;
    for (unsigned i = 0; i < l->n; i++) {
        if (adapter_is_gone(l->items[i])) adapter_let_go(l->items[i]);
        else l->items[n++] = l->items[i];
    }
    l->n = n;
}

void lora_list_free(lora_list *l)
{
    for (unsigned i = 0; i < l->n; i++) adapter_let_go(l->items[i]);
    l->n = 0;
}

/* ---- sets ---- */

static uint64_t lora_key(const serve_lora *s)
{
    uint64_t h = s->n ? 0xcbf29ce484222325u : 0;        /* FNV-1a, 32 bits at a time */
    for (unsigned i = 0; i < s->n; i++) {
        uint32_t bits;
        memcpy(&bits, &s->scales[i], sizeof bits);
        h = (h ^ s->adapters[i]->id) * 0x100000001b3u;
        h = (h ^ bits) * 0x100000001b3u;
    }
    return h;
}

bool lora_add(serve_lora *s, serve_adapter *a, float scale)
{
    unsigned at = s->n;
    if (scale == 0) return true;
    if (s->n == LORA_MOST) return false;
    atomic_fetch_add(&a->holders, 1);
    for (; at && s->adapters[at - 1]->id > a->id; at--) {
        s->adapters[at] = s->adapters[at - 1];
        s->scales[at] = s->scales[at - 1];
    }
    s->adapters[at] = a;
    s->scales[at] = scale;
    s->n++;
    s->key = lora_key(s);
    return true;
}

void lora_copy(serve_lora *to, const serve_lora *from)
{
    for (unsigned i = 0; i < from->n; i++) atomic_fetch_add(&from->adapters[i]->holders, 1);
    lora_empty(to);
    *to = *from;
}

void lora_empty(serve_lora *s)
{
    for (unsigned i = 0; i < s->n; i++) adapter_let_go(s->adapters[i]);
    *s = (serve_lora){ 0 };
}

bool lora_same(const serve_lora *a, const serve_lora *b)
{
    bool same = a->key == b->key && a->n == b->n;
    for (unsigned i = 0; same && i < a->n; i++)
        same = a->adapters[i] == b->adapters[i] && a->scales[i] == b->scales[i];
    return same;
}

bool lora_is_gone(const serve_lora *s)
{
    bool gone = false;
    for (unsigned i = 0; i < s->n; i++) gone |= adapter_is_gone(s->adapters[i]);
    return gone;
}
