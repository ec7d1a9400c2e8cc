/* The Node.js addon: makes engines, whose functions take numbers and answer with numbers, as those
 * of a WebAssembly module do.
 * SPDX-License-Identifier: MIT */
#include "node.h"
#include "base/host.h"

#include <stdio.h>
#include <stdlib.h>

#define NODE_STEPS_NS 30000000u         /* messages wait as long; between two calls caches get cold */

/* The engine whose call runs on this thread. */
static _Thread_local node_engine *running;

static const char *const import_names[NODE_IMPORTS] = { "open", "length", "read", "cancel", "save", "load",
                                                      "pieces" };

static napi_value refuse(napi_env env, const char *what, const char *why)
{
    char text[200];
    snprintf(text, sizeof text, "%s: %s", what, why);
    napi_throw_type_error(env, NULL, text);
    return NULL;
}

/* ---- calls of JavaScript ---- */

bool node_js(node_engine *e, node_import which, const char *text, const double *given, size_t n,
             double *result)
{
    napi_handle_scope scope;
    napi_value imports, fn, args[4], out;
    bool done = false;
    if (e->is_over || running != e || napi_open_handle_scope(e->env, &scope)) return false;
    napi_status st = napi_get_reference_value(e->env, e->imports, &imports);
    if (!st) st = napi_get_named_property(e->env, imports, import_names[which], &fn);
    for (size_t i = 0; i < n && !st; i++) st = napi_create_double(e->env, given[i], &args[i]);
    if (text) {
        st = st ? st : napi_create_string_utf8(e->env, text, NAPI_AUTO_LENGTH, &args[0]);
        n = 1;
    }
    if (!st) st = napi_call_function(e->env, imports, fn, n, args, &out);
    if (!st) done = !result || !napi_get_value_double(e->env, out, result);
    napi_close_handle_scope(e->env, scope);
    return done;
}

/* ---- handles ---- */

static size_t handle_find(const node_engine *e, uint32_t handle)
{
    size_t i = e->n_handles;
    while (i && e->handles[i - 1] != handle) i--;
    return i;                   /* one past it; 0: not this engine's */
}

bool node_has(const node_engine *e, uint32_t handle) { return handle_find(e, handle) != 0; }

static uint32_t handle_keep(node_engine *e, uint32_t handle)
{
    if (!handle) return 0;
    if (e->n_handles == e->cap_handles) {
        const size_t cap = QSF_MAX(64, 2 * e->cap_handles);
        uint32_t *more = realloc(e->handles, cap * sizeof *more);
        if (!more) {
            qsf_flat_free(handle);
            return 0;
        }
        e->handles = more;
        e->cap_handles = cap;
    }
    return e->handles[e->n_handles++] = handle;
}

void node_free(node_engine *e, uint32_t handle)
{
    const size_t i = handle_find(e, handle);
    if (!i) return;
    e->handles[i - 1] = e->handles[--e->n_handles];
    qsf_flat_free(handle);
}

/* ---- arguments ---- */

/* What may stand for a number. */
static bool number_of(napi_env env, napi_value given, double *out)
{
    bool flag;
    if (!napi_get_value_double(env, given, out)) return true;
    if (napi_get_value_bool(env, given, &flag)) return false;
    *out = flag;
    return true;
}

static bool is_whole(double d, double least, double most)
{
    return d >= least && d <= most && d == (double)(int64_t)d;
}

/* An argument that refers to no other one. */
static bool simple_value(node_engine *e, unsigned kind, double d, node_value *out)
{
    switch (kind) {
    case NODE_HANDLE:
        if (!is_whole(d, INT32_MIN, UINT32_MAX)) return false;
        out->u = (uint32_t)(int64_t)d;
        if (!handle_find(e, out->u)) out->u = 0;        /* the flat layer refuses it */
        return true;
    case NODE_U32:
        out->u = is_whole(d, 0, UINT32_MAX) ? (uint32_t)d : 0;
        return is_whole(d, 0, UINT32_MAX);
    case NODE_I32:
        out->i = is_whole(d, INT32_MIN, INT32_MAX) ? (int32_t)d : 0;
        return is_whole(d, INT32_MIN, INT32_MAX);
    case NODE_SIZE:
        out->n = is_whole(d, 0, 9007199254740992.0) ? (size_t)d : 0;
        return is_whole(d, 0, 9007199254740992.0);
    case NODE_LIST:
    case NODE_TEXT:
        out->p = d == 0 ? NULL : node_bytes(e, d, 0, 1);
        return out->p || (d == 0 && kind == NODE_LIST);
    default:
        out->d = d;
        return true;
    }
}

/* The sum of n sizes; SIZE_MAX: too many. */
static size_t sum_of(const size_t *sizes, size_t n)
{
    size_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        if (sizes[i] > ((size_t)1 << 40) - sum) return SIZE_MAX;
        sum += sizes[i];
    }
    return sum;
}

/* An address, of which another argument says how much it has; NULL is allowed for nothing. */
static bool place_value(node_engine *e, const node_call *call, size_t i, double at, node_value *v)
{
    const unsigned kind = call->kinds[i];
    const size_t size = kind == NODE_LENT ? sizeof(int32_t) : kind >> 4 & 15,
        n = kind == NODE_LENT ? sum_of(v[i + 1].p, v[i + 2].n) : v[kind >> 8].n;
    v[i].p = at == 0 || n > SIZE_MAX / 16 ? NULL : node_bytes(e, at, n * size, size);
    return v[i].p || (at == 0 && !n);
}

/* Converts all arguments; otherwise throws. */
static bool take(node_engine *e, const node_call *call, const napi_value *given, node_value *v)
{
    double numbers[NODE_ARGS];
    size_t wrong = NODE_ARGS;
    for (size_t i = 0; i < call->n && wrong == NODE_ARGS; i++)
        if (!number_of(e->env, given[i], &numbers[i])
            || (call->kinds[i] < NODE_LENT && !simple_value(e, call->kinds[i], numbers[i], &v[i]))) wrong = i;
    /* from the end: a sum needs the sizes after it */
    for (size_t i = call->n; i-- > 0 && wrong == NODE_ARGS;)
        if (call->kinds[i] >= NODE_LENT && !place_value(e, call, i, numbers[i], v)) wrong = i;
    if (wrong == NODE_ARGS) return true;
    char text[60];
    snprintf(text, sizeof text, "argument %zu is not valid", wrong + 1);
    refuse(e->env, call->name, text);
    return false;
}

/* ---- calls from JavaScript ---- */

int32_t node_steps(node_engine *e, const node_value *v, int32_t (*step)(const node_value *v))
{
    const uint64_t end = qsf_now(qsf_platform_native()) + NODE_STEPS_NS;
    for (;;) {
        int32_t st = step(v);
        if (e->has_files && st == (QSF_PENDING | QSF_FLAT_WAITING)) {
            (void)qsf_wait(qsf_flat_context(v[0].u));
            st = QSF_PENDING;
        }
        if (st != QSF_PENDING || qsf_now(qsf_platform_native()) >= end) return st;
    }
}

static napi_value call(napi_env env, napi_callback_info info)
{
    napi_value given[NODE_ARGS], result = NULL;
    node_value v[NODE_ARGS] = { { 0 } };
    size_t n = NODE_ARGS;
    void *data;
    if (napi_get_cb_info(env, info, &n, given, NULL, &data)) return NULL;
    const node_bound *b = data;
    node_engine *e = b->engine;
    if (e->is_over) return refuse(env, b->call->name, "the engine has ended");
    if (e->is_busy) return refuse(env, b->call->name, "the engine is in another call");
    if (!take(e, b->call, given, v)) return NULL;
    e->is_busy = true;
    running = e;
    double number = b->call->run(e, v);
    running = NULL;
    e->is_busy = false;
    if (b->call->makes) number = handle_keep(e, (uint32_t)number);
    napi_create_double(env, number, &result);
    return result;              /* nothing, if a function that was called has thrown */
}

/* The engine of a function that is not in node_calls. */
static node_engine *engine_of(napi_env env, napi_callback_info info, size_t n, napi_value *given)
{
    void *data;
    size_t got = n;
    if (napi_get_cb_info(env, info, &got, given, NULL, &data)) return NULL;
    node_engine *e = ((node_bound *)data)->engine;
    if (!e->is_over) return e;
    refuse(env, "memory", "the engine has ended");
    return NULL;
}

static napi_value js_taken(napi_env env, napi_callback_info info)
{
    node_engine *e = engine_of(env, info, 0, NULL);
    if (e && e->is_busy && !e->gives) return refuse(env, "taken", "the engine is in another call");
    return e ? node_pieces_taken(e) : NULL;
}

/* ---- what is allowed during a call, too: memory ---- */

static napi_value js_alloc(napi_env env, napi_callback_info info)
{
    napi_value given[1], result = NULL;
    double size;
    node_engine *e = engine_of(env, info, 1, given);
    if (!e) return NULL;
    if (napi_get_value_double(env, given[0], &size) || !is_whole(size, 0, 9007199254740992.0))
        return refuse(env, "alloc", "the size is not valid");
    napi_create_double(env, node_block_add(e, NULL, (size_t)size), &result);
    return result;
}

static napi_value js_free(napi_env env, napi_callback_info info)
{
    napi_value given[1];
    double at;
    node_engine *e = engine_of(env, info, 1, given);
    if (e && e->is_busy) return refuse(env, "free", "the engine is in another call");
    if (e && !napi_get_value_double(env, given[0], &at)) node_block_remove(e, at, true);
    return NULL;
}

/* The bytes of put(at, array) and get(at, array). */
static bool both(napi_env env, napi_callback_info info, uint8_t **own, uint8_t **theirs, size_t *len)
{
    napi_value given[2];
    napi_typedarray_type type;
    double at;
    void *data;
    bool is_array;
    node_engine *e = engine_of(env, info, 2, given);
    if (!e) return false;
    if (napi_is_typedarray(env, given[1], &is_array) || !is_array
        || napi_get_typedarray_info(env, given[1], &type, len, &data, NULL, NULL) || type != napi_uint8_array
        || napi_get_value_double(env, given[0], &at)) {
        refuse(env, "memory", "it takes an address and a Uint8Array");
        return false;
    }
    *theirs = data;
    *own = node_bytes(e, at, *len, 1);
    if (!*own) refuse(env, "memory", "no such bytes");
    return *own && *len;
}
static napi_value js_put(napi_env env, napi_callback_info info)
{
    uint8_t *own, *theirs;
    size_t len;
    if (both(env, info, &own, &theirs, &len)) memcpy(own, theirs, len);
    return NULL;
}
static napi_value js_get(napi_env env, napi_callback_info info)
{
    uint8_t *own, *theirs;
    size_t len;
    if (both(env, info, &own, &theirs, &len)) memcpy(theirs, own, len);
    return NULL;
}

/* watch(two): an Int32Array of shared memory, which cannot be detached. */
static napi_value js_watch(napi_env env, napi_callback_info info)
{
    napi_value given[1], buffer;
    napi_typedarray_type type;
    napi_ref kept;              /* for as long as the environment */
    size_t len;
    void *two;
    bool is;
    node_engine *e = engine_of(env, info, 1, given);
    if (!e) return NULL;
    if (e->is_busy) return refuse(env, "watch", "the engine is in another call");
    if (napi_is_typedarray(env, given[0], &is) || !is
        || napi_get_typedarray_info(env, given[0], &type, &len, &two, &buffer, NULL)
        || type != napi_int32_array || len != 2 || napi_is_arraybuffer(env, buffer, &is) || is
        || napi_create_reference(env, given[0], 1, &kept))
        return refuse(env, "watch", "it takes an Int32Array of two numbers in shared memory");
    e->watched = two;
    return NULL;
}

static napi_value js_store(napi_env env, napi_callback_info info)
{
    napi_value given[2];
    double at, status;
    node_engine *e = engine_of(env, info, 2, given);
    if (!e) return NULL;
    if (napi_get_value_double(env, given[0], &at) || napi_get_value_double(env, given[1], &status)
        || !node_read_end(e, at, status == 0 ? 0 : QSF_E_IO))
        return refuse(env, "store", "no such read");
    return NULL;
}

/* ---- engines ---- */

static void engine_end(node_engine *e)
{
    e->is_over = true;
    while (e->n_handles) node_free(e, e->handles[e->n_handles - 1]);
    free(e->handles);
    e->handles = NULL;
    free(e->pieces.bytes);
    e->pieces = (node_list){ 0 };
    e->watched = NULL;
    node_blocks_free(e);
}

static napi_value js_end(napi_env env, napi_callback_info info)
{
    void *data;
    if (napi_get_cb_info(env, info, NULL, NULL, NULL, &data)) return NULL;
    node_engine *e = ((node_bound *)data)->engine;
    if (e->is_busy) return refuse(env, "end", "the engine is in another call");
    if (!e->is_over) engine_end(e);
    return NULL;
}

/* model(own): a new model, whose files JavaScript reads, unless own. */
static napi_value js_model(napi_env env, napi_callback_info info)
{
    napi_value given[1], result = NULL;
    node_engine *e = engine_of(env, info, 1, given);
    if (!e) return NULL;
    if (e->is_busy) return refuse(env, "model", "the engine is in another call");
    if (e->n_handles) return refuse(env, "model", "the engine has one");
    if (napi_get_value_bool(env, given[0], &e->has_files)) return refuse(env, "model", "it takes a flag");
    const uint32_t handle = handle_keep(e, qsf_flat_model_new(NULL, NULL));
    flat_model *m = qsf_flat_at(handle, FLAT_MODEL);
    if (m && !e->has_files) m->platform = &e->platform;
    napi_create_uint32(env, handle, &result);
    return result;
}

static const struct { const char *name; napi_callback run; } own_functions[] = {
    { "alloc", js_alloc }, { "free", js_free }, { "put", js_put }, { "get", js_get }, { "store", js_store },
    { "watch", js_watch }, { "model", js_model }, { "taken", js_taken }, { "end", js_end },
};
enum { OWN_FUNCTIONS = sizeof own_functions / sizeof *own_functions };

static bool functions_set(node_engine *e, napi_value object)
{
    for (size_t i = 0; i < node_n_calls + OWN_FUNCTIONS; i++) {
        const bool is_call = i < node_n_calls;
        const char *name = is_call ? node_calls[i].name : own_functions[i - node_n_calls].name;
        napi_value fn;
        e->bound[i] = (node_bound){ e, is_call ? &node_calls[i] : NULL };
        if (napi_create_function(e->env, name, NAPI_AUTO_LENGTH,
                                 is_call ? call : own_functions[i - node_n_calls].run, &e->bound[i], &fn)
            || napi_set_named_property(e->env, object, name, fn)) return false;
    }
    return true;
}

typedef struct node_home { node_engine *engines; } node_home;

/* engine(imports) returns an object of functions.  They stay valid for as long as the environment:
 * what they need of an engine that has ended is freed with that. */
static napi_value js_engine(napi_env env, napi_callback_info info)
{
    napi_value given[1], object = NULL;
    napi_valuetype type;
    size_t n = 1;
    void *home;
    if (napi_get_cb_info(env, info, &n, given, NULL, NULL) || napi_get_instance_data(env, &home)) return NULL;
    if (napi_typeof(env, given[0], &type) || type != napi_object)
        return refuse(env, "engine", "it takes an object of functions");
    node_engine *e = calloc(1, sizeof *e);
    if (e) e->bound = calloc(node_n_calls + OWN_FUNCTIONS, sizeof *e->bound);
    if (!e || !e->bound) {
        free(e);
        napi_throw_error(env, NULL, "out of memory");
        return NULL;
    }
    e->env = env;
    e->next_at = 64;            /* 0 stands for NULL */
    node_platform_init(e);
    e->next = ((node_home *)home)->engines;
    ((node_home *)home)->engines = e;
    if (napi_create_reference(env, given[0], 1, &e->imports) || napi_create_object(env, &object)
        || !functions_set(e, object)) return NULL;
    return object;
}

static void home_free(napi_env env, void *data, void *hint)
{
    (void)env;
    (void)hint;
    for (node_engine *e = ((node_home *)data)->engines, *next; e; e = next) {
        next = e->next;
        if (!e->is_over) engine_end(e);
        free(e->bound);
        free(e);
    }
    free(data);
}

NAPI_MODULE_INIT()
{
    napi_value fn;
    if (!node_host_functions()) return NULL;
    node_home *home = calloc(1, sizeof *home);
    if (!home || napi_set_instance_data(env, home, home_free, NULL)) {
        free(home);
        return NULL;
    }
    if (napi_create_function(env, "engine", NAPI_AUTO_LENGTH, js_engine, NULL, &fn)
        || napi_set_named_property(env, exports, "engine", fn)) return NULL;
    return exports;
}
