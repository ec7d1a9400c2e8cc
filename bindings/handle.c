/* Handles: a number has the place of an object, and how often the place was used, so that the
 * handle of an object that is gone is found to be invalid.
 * SPDX-License-Identifier: MIT */
#include "own.h"

enum { PLACE_BITS = 12, PLACES = 1 << PLACE_BITS };

typedef struct flat_place { flat_object *object; uint32_t uses; } flat_place;

static struct {
    uint32_t locked;
    uint32_t last;                      /* place that was taken last */
    flat_place *places;                 /* [PLACES], from the first handle on */
} flat;

/* Held for some instructions. */
void qsf_flat_lock(void) { while (__atomic_exchange_n(&flat.locked, 1, __ATOMIC_ACQUIRE)) { } }
void qsf_flat_unlock(void) { __atomic_store_n(&flat.locked, 0, __ATOMIC_RELEASE); }

static const qsf_platform *host(void) { return qsf_platform_native(); }
void qsf_flat_dealloc(void *p, size_t size) { host()->mem_free(host()->user, p, size); }
void *qsf_flat_alloc(flat_object *o, size_t size)
{
    void *p = host()->mem_alloc(host()->user, size);
    if (!p && o) qsf_flat_fail(o, QSF_E_MEMORY, "out of memory");
    return p;
}

void *qsf_flat_make(uint32_t *handle, uint32_t kind, size_t size, flat_object *parent,
                    void (*done)(flat_object *))
{
    flat_object *o = qsf_flat_alloc(NULL, size);
    *handle = 0;
    if (!o) return NULL;
    *o = (flat_object){ .kind = kind, .refs = 1, .size = size, .parent = parent, .done = done };
    qsf_flat_lock();
    if (!flat.places) flat.places = qsf_flat_alloc(NULL, PLACES * sizeof *flat.places);
    for (uint32_t i = 0; flat.places && i < PLACES && !*handle; i++) {
        const uint32_t place = (flat.last + 1 + i) % PLACES;
        if (flat.places[place].object) continue;
        flat.last = place;
        flat.places[place].object = o;
        if (++flat.places[place].uses >> (32 - PLACE_BITS)) flat.places[place].uses = 1;
        *handle = flat.places[place].uses << PLACE_BITS | place;
        if (parent) parent->refs++;
    }
    qsf_flat_unlock();
    if (*handle) return o;
    qsf_flat_dealloc(o, size);
    return NULL;
}

/* With the lock held. */
static flat_object *object_at(uint32_t handle, uint32_t kinds)
{
    const flat_place *p = flat.places ? &flat.places[handle % PLACES] : NULL;
    return p && p->object && p->uses == handle >> PLACE_BITS && p->object->kind & kinds ? p->object : NULL;
}

void *qsf_flat_at(uint32_t handle, uint32_t kinds)
{
    qsf_flat_lock();
    flat_object *o = object_at(handle, kinds);
    qsf_flat_unlock();
    return o;
}

void *qsf_flat_hold(uint32_t handle, uint32_t kinds)
{
    qsf_flat_lock();
    flat_object *o = object_at(handle, kinds);
    if (o) o->refs++;
    qsf_flat_unlock();
    return o;
}

void *qsf_flat_up(flat_object *o, uint32_t kind)
{
    while (o && o->kind != kind) o = o->parent;
    return o;
}

void qsf_flat_keep(flat_object *o)
{
    qsf_flat_lock();
    o->refs++;
    qsf_flat_unlock();
}

void qsf_flat_drop(flat_object *o)
{
    while (o) {
        flat_object *parent = o->parent;
        qsf_flat_lock();
        const uint32_t refs = --o->refs;
        qsf_flat_unlock();
        if (refs) return;
        o->done(o);
        qsf_flat_dealloc(o, o->size);
        o = parent;                     /* has lost a child */
    }
}

void qsf_flat_cancel(uint32_t handle)
{
    flat_object *o = qsf_flat_at(handle, FLAT_ANY);
    if (o && o->cancel) o->cancel(o);
}

void qsf_flat_free(uint32_t handle)
{
    qsf_flat_cancel(handle);
    qsf_flat_lock();
    flat_object *o = object_at(handle, FLAT_ANY);
    if (o) flat.places[handle % PLACES].object = NULL;
    qsf_flat_unlock();
    qsf_flat_drop(o);
}

flat_context *qsf_flat_context_at(uint32_t handle)
{
    flat_context *c = qsf_flat_at(handle, FLAT_CONTEXT);
    return c && c->context ? c : NULL;
}

qsf_status qsf_flat_fail(flat_object *o, qsf_status st, const char *text)
{
    o->error.status = st;
    if (text) {
        const size_t len = strlen(text), most = sizeof o->error.text - 1;
        memmove(o->error.text, text, len < most ? len : most);
        o->error.text[len < most ? len : most] = 0;
    }
    return st;
}

int32_t qsf_flat_copied(qsf_status st, size_t n, size_t cap)
{
    if (st && !(st == QSF_E_ARGUMENT && n >= cap && n)) return -(int32_t)st;
    return n > INT32_MAX ? -(int32_t)QSF_E_ARGUMENT : (int32_t)n;
}

int32_t qsf_flat_status(uint32_t handle)
{
    const flat_object *o = qsf_flat_at(handle, FLAT_ANY);
    return o ? (int32_t)o->error.status : QSF_E_ARGUMENT;
}
