/* A machine for the pickles of PyTorch state dicts.  It has values for numbers, texts, tuples,
 * lists, dicts, storages and tensors; a global is a row of a fixed table, and "calling" one is a
 * case of a switch.
 * SPDX-License-Identifier: MIT
 * Opcodes: CPython's Lib/pickletools.py.  What PyTorch writes: torch/serialization.py,
 * torch/_utils.py. */
#include "read/pickle_machine.h"

enum { PICKLE_MAX_STACK = 1 << 17, PICKLE_MAX_MEMO = 1 << 22, PICKLE_MAX_MARKS = 256 };

typedef enum pickle_global_id { PG_DICT, PG_TENSOR, PG_PARAMETER, PG_STORAGE } pickle_global_id;

static const pickle_global pickle_globals[] = {
    { "collections", "OrderedDict", PG_DICT, 0, 0 },
    { "torch._utils", "_rebuild_tensor_v2", PG_TENSOR, 0, 0 },
    { "torch._utils", "_rebuild_parameter", PG_PARAMETER, 0, 0 },
    { "torch", "FloatStorage", PG_STORAGE, QSF_T_F32, 4 },
    { "torch", "HalfStorage", PG_STORAGE, QSF_T_F16, 2 },
    { "torch", "BFloat16Storage", PG_STORAGE, QSF_T_BF16, 2 },
    { "torch", "DoubleStorage", PG_STORAGE, WEIGHTS_NO_TYPE, 8 },
    { "torch", "LongStorage", PG_STORAGE, WEIGHTS_NO_TYPE, 8 },
    { "torch", "IntStorage", PG_STORAGE, WEIGHTS_NO_TYPE, 4 },
    { "torch", "ShortStorage", PG_STORAGE, WEIGHTS_NO_TYPE, 2 },
    { "torch", "CharStorage", PG_STORAGE, WEIGHTS_NO_TYPE, 1 },
    { "torch", "ByteStorage", PG_STORAGE, WEIGHTS_NO_TYPE, 1 },
    { "torch", "BoolStorage", PG_STORAGE, WEIGHTS_NO_TYPE, 1 },
};

typedef struct pickle_machine {
    const qsf_platform *platform;
    const char   *path;
    const uint8_t *code;
    size_t        len, pc;
    qsf_arena    *arena;                /* values */
    pickle_value *stack, *memo;
    uint32_t      n_stack, stack_cap, n_memo, memo_cap, n_marks;
    uint32_t      marks[PICKLE_MAX_MARKS];
    qsf_error    *err;
} pickle_machine;

/* ---- bytes and values ------------------------------------------------------------------------ */

static qsf_status pickle_bad(pickle_machine *m, const char *what)
{
    return qsf_fail(m->err, QSF_E_CORRUPT, "%s: the pickle is damaged at byte %zu: %s", m->path, m->pc, what);
}

/* The next n bytes, or NULL beyond the end. */
static const uint8_t *pickle_take(pickle_machine *m, uint64_t n)
{
    if (n > m->len - m->pc) return NULL;
    const uint8_t *p = m->code + m->pc;
    m->pc += (size_t)n;
    return p;
}

/* Room for at least n values. */
static qsf_status pickle_grow(pickle_machine *m, pickle_value **values, uint32_t *cap, uint32_t n)
{
    if (n <= *cap) return QSF_OK;
    const uint32_t more = QSF_MAX(n, QSF_MAX(*cap * 2, 256u));
    pickle_value *v = qsf_alloc_array(m->platform, more, sizeof *v, "pickle machine", m->err);
    if (!v) return QSF_E_MEMORY;
    if (*values) {
        memcpy(v, *values, *cap * sizeof *v);
        qsf_dealloc(m->platform, *values, (uint64_t)*cap * sizeof *v);
    }
    *values = v;
    *cap = more;
    return QSF_OK;
}

static qsf_status pickle_push(pickle_machine *m, pickle_value v)
{
    if (m->n_stack == PICKLE_MAX_STACK) return pickle_bad(m, "the stack is full");
    const qsf_status st = pickle_grow(m, &m->stack, &m->stack_cap, m->n_stack + 1);
    if (st) return st;
    m->stack[m->n_stack++] = v;
    return QSF_OK;
}
static qsf_status pickle_push_int(pickle_machine *m, int64_t i)
{
    return pickle_push(m, (pickle_value){ .kind = PV_INT, .u.i = i });
}

/* Values above the last mark. */
static uint32_t pickle_floor(const pickle_machine *m) { return m->n_marks ? m->marks[m->n_marks - 1] : 0; }
static bool pickle_has(const pickle_machine *m, uint32_t n) { return m->n_stack - pickle_floor(m) >= n; }

static qsf_status pickle_append(pickle_machine *m, pickle_chain *c, pickle_value v)
{
    pickle_node *n = qsf_arena_alloc(m->arena, sizeof *n, "pickled values", m->err);
    if (!n) return QSF_E_MEMORY;
    n->v = v;
    if (c->tail) c->tail->next = n;
    else c->head = n;
    c->tail = n;
    c->n++;
    return QSF_OK;
}

/* The stack from `from` on becomes the members of a chain, and leaves the stack. */
static qsf_status pickle_gather(pickle_machine *m, uint32_t from, pickle_chain *c)
{
    for (uint32_t i = from; i < m->n_stack; i++) {
        const qsf_status st = pickle_append(m, c, m->stack[i]);
        if (st) return st;
    }
    m->n_stack = from;
    return QSF_OK;
}

static qsf_status pickle_new_chain(pickle_machine *m, pickle_kind kind, uint32_t from)
{
    pickle_chain *c = qsf_arena_alloc(m->arena, sizeof *c, "pickled values", m->err);
    if (!c) return QSF_E_MEMORY;
    const qsf_status st = pickle_gather(m, from, c);
    return st ? st : pickle_push(m, (pickle_value){ .kind = (uint8_t)kind, .u.chain = c });
}

/* Values since the mark go to the list or dict below it. */
static qsf_status pickle_extend(pickle_machine *m, uint32_t from, pickle_kind kind)
{
    if (!from || m->stack[from - 1].kind != kind) return pickle_bad(m, "members for something that is not a "
                                                                       "list or dict");
    if (kind == PV_DICT && (m->n_stack - from) % 2) return pickle_bad(m, "a key without a value");
    return pickle_gather(m, from, m->stack[from - 1].u.chain);
}

static qsf_status pickle_pop_mark(pickle_machine *m, uint32_t *from)
{
    if (!m->n_marks) return pickle_bad(m, "no mark");
    *from = m->marks[--m->n_marks];
    return QSF_OK;
}

static qsf_status pickle_text(pickle_machine *m, uint64_t n)
{
    const uint8_t *p = n > UINT32_MAX ? NULL : pickle_take(m, n);
    if (!p) return pickle_bad(m, "a string beyond the end");
    return pickle_push(m, (pickle_value){ .kind = PV_TEXT, .len = (uint32_t)n, .u.text = (const char *)p });
}

/* A line of the old text opcodes, without its end. */
static qsf_status pickle_line(pickle_machine *m, const char **s, size_t *n)
{
    const uint8_t *begin = m->code + m->pc, *end = memchr(begin, '\n', m->len - m->pc);
    if (!end) return pickle_bad(m, "a line without an end");
    *s = (const char *)begin;
    *n = (size_t)(end - begin);
    m->pc += *n + 1;
    return QSF_OK;
}

/* ---- memo ------------------------------------------------------------------------------------ */

static qsf_status pickle_put(pickle_machine *m, uint32_t i)
{
    if (!pickle_has(m, 1)) return pickle_bad(m, "nothing to memoize");
    if (i >= PICKLE_MAX_MEMO || i > m->len) return pickle_bad(m, "the memo is full");
    const qsf_status st = pickle_grow(m, &m->memo, &m->memo_cap, i + 1);
    if (st) return st;
    m->memo[i] = m->stack[m->n_stack - 1];
    m->n_memo = QSF_MAX(m->n_memo, i + 1);
    return QSF_OK;
}

static qsf_status pickle_get(pickle_machine *m, uint32_t i)
{
    if (i >= m->n_memo) return pickle_bad(m, "a memo entry does not exist");
    return pickle_push(m, m->memo[i]);
}

/* ---- globals --------------------------------------------------------------------------------- */

static bool pickle_same(const char *s, size_t n, const char *is)
{
    return strlen(is) == n && !memcmp(s, is, n);
}

static qsf_status pickle_global_of(pickle_machine *m, const char *module, size_t mlen, const char *name,
                                   size_t nlen)
{
    for (size_t i = 0; i < QSF_ARRAY_LEN(pickle_globals); i++)
        if (pickle_same(module, mlen, pickle_globals[i].module) &&
            pickle_same(name, nlen, pickle_globals[i].name))
            return pickle_push(m, (pickle_value){ .kind = PV_GLOBAL, .u.global = &pickle_globals[i] });
    return qsf_fail(m->err, QSF_E_UNSUPPORTED,
                    "%s: the pickle asks for \"%.*s.%.*s\", which no state dict needs; it may be an attack. "
                    "Nothing was run",
                    m->path, (int)QSF_MIN(mlen, 80), module, (int)QSF_MIN(nlen, 80), name);
}

static bool pickle_u64(const pickle_value *v, uint64_t *out)
{
    if (v->kind != PV_INT || v->u.i < 0) return false;
    *out = (uint64_t)v->u.i;
    return true;
}

/* A tuple of sizes; *n counts them all, the first WEIGHTS_MAX_DIMS are kept. */
static bool pickle_sizes(const pickle_value *v, uint64_t *out, uint32_t *n)
{
    if (v->kind != PV_TUPLE) return false;
    *n = 0;
    for (const pickle_node *e = v->u.chain->head; e; e = e->next, (*n)++) {
        uint64_t d;
        if (!pickle_u64(&e->v, &d)) return false;
        if (*n < WEIGHTS_MAX_DIMS) out[*n] = d;
    }
    return true;
}

/* _rebuild_tensor_v2(storage, offset, size, stride, requires_grad, hooks) */
static qsf_status pickle_make_tensor(pickle_machine *m, const pickle_chain *args)
{
    pickle_tensor *t = qsf_arena_alloc(m->arena, sizeof *t, "pickled tensor", m->err);
    uint32_t n_shape, n_stride;
    if (!t) return QSF_E_MEMORY;
    if (args->n < 4) return pickle_bad(m, "a tensor of too few parts");
    const pickle_node *storage = args->head, *offset = storage->next, *shape = offset->next,
                      *stride = shape->next;
    if (storage->v.kind != PV_STORAGE || !pickle_u64(&offset->v, &t->offset) ||
        !pickle_sizes(&shape->v, t->shape, &n_shape) || !pickle_sizes(&stride->v, t->stride, &n_stride) ||
        n_shape != n_stride)
        return pickle_bad(m, "a tensor of the wrong parts");
    t->storage = storage->v.u.storage;
    t->n_dims = n_shape;
    return pickle_push(m, (pickle_value){ .kind = PV_TENSOR, .u.tensor = t });
}

static qsf_status pickle_reduce(pickle_machine *m)
{
    if (!pickle_has(m, 2)) return pickle_bad(m, "nothing to build from");
    const pickle_value args = m->stack[--m->n_stack], what = m->stack[--m->n_stack];
    if (what.kind != PV_GLOBAL || args.kind != PV_TUPLE)
        return pickle_bad(m, "only known globals build something");
    switch ((pickle_global_id)what.u.global->id) {
    case PG_DICT:
        if (args.u.chain->n) return pickle_bad(m, "an OrderedDict with arguments");
        return pickle_new_chain(m, PV_DICT, m->n_stack);
    case PG_TENSOR:
        return pickle_make_tensor(m, args.u.chain);
    case PG_PARAMETER:
        if (!args.u.chain->n || args.u.chain->head->v.kind != PV_TENSOR)
            return pickle_bad(m, "a parameter without a tensor");
        return pickle_push(m, args.u.chain->head->v);
    case PG_STORAGE:
        break;
    }
    return pickle_bad(m, "a storage is named, never built");
}

/* ('storage', torch.HalfStorage, '0', 'cpu', 1000) */
static qsf_status pickle_persistent(pickle_machine *m)
{
    if (!pickle_has(m, 1) || m->stack[m->n_stack - 1].kind != PV_TUPLE ||
        m->stack[m->n_stack - 1].u.chain->n != 5)
        return pickle_bad(m, "a persistent id that is not a storage");
    const pickle_node *tag = m->stack[--m->n_stack].u.chain->head, *type = tag->next, *key = type->next,
                      *n = key->next->next;
    pickle_storage *s = qsf_arena_alloc(m->arena, sizeof *s, "pickled storage", m->err);
    if (!s) return QSF_E_MEMORY;
    if (tag->v.kind != PV_TEXT || !pickle_same(tag->v.u.text, tag->v.len, "storage") ||
        type->v.kind != PV_GLOBAL || type->v.u.global->id != PG_STORAGE || key->v.kind != PV_TEXT ||
        !pickle_u64(&n->v, &s->n))
        return pickle_bad(m, "a persistent id that is not a storage");
    s->type = type->v.u.global;
    s->key = key->v.u.text;
    s->key_len = key->v.len;
    return pickle_push(m, (pickle_value){ .kind = PV_STORAGE, .u.storage = s });
}

/* An OrderedDict's attributes ("_metadata") are not about tensors. */
static qsf_status pickle_build(pickle_machine *m)
{
    if (!pickle_has(m, 2) || m->stack[m->n_stack - 2].kind != PV_DICT)
        return pickle_bad(m, "attributes for something that is not a dict");
    m->n_stack--;
    return QSF_OK;
}

/* ---- opcodes --------------------------------------------------------------------------------- */

/* LONG1, LONG4: little-endian two's complement. */
static qsf_status pickle_long(pickle_machine *m, uint64_t n)
{
    const uint8_t *p = pickle_take(m, n);
    uint64_t v = 0;
    if (!p || n > 8) return pickle_bad(m, "a number of more than 64 bits");
    for (uint64_t i = 0; i < n; i++) v |= (uint64_t)p[i] << 8 * i;
    if (n && n < 8 && p[n - 1] & 0x80) v |= UINT64_MAX << 8 * n;
    int64_t i;
    memcpy(&i, &v, sizeof i);
    return pickle_push_int(m, i);
}

/* INT and LONG as text: "123", "123L", "01" for true. */
static qsf_status pickle_decimal(pickle_machine *m)
{
    const char *s = NULL;
    size_t n = 0, i = 0;
    int64_t v = 0;
    const qsf_status st = pickle_line(m, &s, &n);
    if (st) return st;
    const bool minus = n && s[0] == '-';
    if (minus) i++;
    if (n && s[n - 1] == 'L') n--;
    if (i == n || n - i > 18) return pickle_bad(m, "no number");
    for (; i < n; i++) {
        if (s[i] < '0' || s[i] > '9') return pickle_bad(m, "no number");
        v = v * 10 + (s[i] - '0');
    }
    return pickle_push_int(m, minus ? -v : v);
}

static qsf_status pickle_op_global(pickle_machine *m, bool from_stack)
{
    const char *module = NULL, *name = NULL;
    size_t mlen = 0, nlen = 0;
    qsf_status st;
    if (!from_stack) {
        if ((st = pickle_line(m, &module, &mlen)) || (st = pickle_line(m, &name, &nlen))) return st;
        return pickle_global_of(m, module, mlen, name, nlen);
    }
    if (!pickle_has(m, 2)) return pickle_bad(m, "a global without a name");
    const pickle_value n = m->stack[--m->n_stack], o = m->stack[--m->n_stack];
    if (n.kind != PV_TEXT || o.kind != PV_TEXT) return pickle_bad(m, "a global without a name");
    return pickle_global_of(m, o.u.text, o.len, n.u.text, n.len);
}

/* Tuples, lists, dicts and their members. */
static qsf_status pickle_op_members(pickle_machine *m, uint8_t op)
{
    uint32_t from = 0;
    qsf_status st;
    switch (op) {
    case 0x85: case 0x86: case 0x87:                                /* TUPLE1, TUPLE2, TUPLE3 */
        if (!pickle_has(m, op - 0x84u)) return pickle_bad(m, "too few members");
        return pickle_new_chain(m, PV_TUPLE, m->n_stack - (op - 0x84u));
    case ')': return pickle_new_chain(m, PV_TUPLE, m->n_stack);     /* EMPTY_TUPLE */
    case ']': return pickle_new_chain(m, PV_LIST, m->n_stack);      /* EMPTY_LIST */
    case '}': return pickle_new_chain(m, PV_DICT, m->n_stack);      /* EMPTY_DICT */
    case 'a':                                                       /* APPEND */
        if (!pickle_has(m, 2)) return pickle_bad(m, "too few members");
        return pickle_extend(m, m->n_stack - 1, PV_LIST);
    case 's':                                                       /* SETITEM */
        if (!pickle_has(m, 3)) return pickle_bad(m, "too few members");
        return pickle_extend(m, m->n_stack - 2, PV_DICT);
    default:
        break;
    }
    if ((st = pickle_pop_mark(m, &from))) return st;
    switch (op) {
    case 't': return pickle_new_chain(m, PV_TUPLE, from);           /* TUPLE */
    case 'l': return pickle_new_chain(m, PV_LIST, from);            /* LIST */
    case 'd':                                                       /* DICT */
        if ((m->n_stack - from) % 2) return pickle_bad(m, "a key without a value");
        return pickle_new_chain(m, PV_DICT, from);
    case 'e': return pickle_extend(m, from, PV_LIST);               /* APPENDS */
    case 'u': return pickle_extend(m, from, PV_DICT);               /* SETITEMS */
    default:  m->n_stack = from; return QSF_OK;                     /* POP_MARK */
    }
}

/* Opcodes whose operand has `size` bytes: numbers, texts of a given length, memo places. */
static qsf_status pickle_op_sized(pickle_machine *m, uint8_t op, uint32_t size)
{
    const uint8_t *p = pickle_take(m, size);
    if (!p) return pickle_bad(m, "an opcode without its operand");
    const uint64_t v = size == 1   ? p[0]
                       : size == 2 ? qsf_le16(p)
                       : size == 4 ? qsf_le32(p)
                       : size == 8 ? qsf_le64(p)
                                   : 0;
    switch (op) {
    case 'K': case 'M': return pickle_push_int(m, (int64_t)v);                        /* BININT1, BININT2 */
    /* BININT */
    case 'J': return pickle_push_int(m, v & 0x80000000u ? (int64_t)v - ((int64_t)1 << 32) : (int64_t)v);
    /* BINFLOAT: no tensor needs one */
    case 'G': return pickle_push(m, (pickle_value){ .kind = PV_FLOAT });
    case 0x8a: case 0x8b: return pickle_long(m, v);                                   /* LONG1, LONG4 */
    case 'X': case 0x8c: case 0x8d: case 'T': case 'U': case 'B': case 'C': case 0x8e:
        /* the texts and bytes */
        return pickle_text(m, v);
    /* BINPUT, LONG_BINPUT */
    case 'q': case 'r': return pickle_put(m, (uint32_t)v);
    /* BINGET, LONG_BINGET */
    case 'h': case 'j': return pickle_get(m, (uint32_t)v);
    default:  return QSF_OK;                                                          /* PROTO, FRAME */
    }
}

/* Bytes of an opcode's operand, for those that have one of fixed size. */
static uint32_t pickle_operand(uint8_t op)
{
    switch (op) {
    case 'K': case 'q': case 'h': case 0x8a: case 0x8c: case 'U': case 'C': case 0x80: return 1;
    case 'M': return 2;
    case 'J': case 'r': case 'j': case 0x8b: case 'X': case 'T': case 'B': return 4;
    case 'G': case 0x8d: case 0x8e: case 0x95: return 8;
    default:  return 0;
    }
}

static qsf_status pickle_op(pickle_machine *m, uint8_t op)
{
    switch (op) {
    case '(':                                                       /* MARK */
        if (m->n_marks == PICKLE_MAX_MARKS) return pickle_bad(m, "too many marks");
        m->marks[m->n_marks++] = m->n_stack;
        return QSF_OK;
    case '0':                                                       /* POP */
        if (!pickle_has(m, 1)) return pickle_bad(m, "nothing to drop");
        m->n_stack--;
        return QSF_OK;
    case '2':                                                       /* DUP */
        if (!pickle_has(m, 1)) return pickle_bad(m, "nothing to copy");
        return pickle_push(m, m->stack[m->n_stack - 1]);
    case 'N': return pickle_push(m, (pickle_value){ .kind = PV_NONE });
    case 0x88: return pickle_push_int(m, 1);                        /* NEWTRUE */
    case 0x89: return pickle_push_int(m, 0);                        /* NEWFALSE */
    case 'I': case 'L': return pickle_decimal(m);
    case 0x94: return pickle_put(m, m->n_memo);                     /* MEMOIZE */
    case 'c': return pickle_op_global(m, false);                    /* GLOBAL */
    case 0x93: return pickle_op_global(m, true);                    /* STACK_GLOBAL */
    case 'R': return pickle_reduce(m);
    case 'Q': return pickle_persistent(m);                          /* BINPERSID */
    case 'b': return pickle_build(m);
    case 0x85:
    case 0x86:
    case 0x87:
    case ')':
    case ']':
    case '}':
    case 'a':
    case 's':
    case 't':
    case 'l':
    case 'd':
    case 'e':
    case 'u': case '1': return pickle_op_members(m, op);
    default:
        return qsf_fail(m->err, QSF_E_UNSUPPORTED,
                        "%s: the pickle has opcode 0x%02x at byte %zu, which no state dict needs", m->path,
                        (unsigned)op, m->pc - 1);
    }
}

/* Runs to STOP; the value it leaves is the dict. */
static qsf_status pickle_loop(pickle_machine *m, pickle_value *out)
{
    for (;;) {
        const uint8_t *op = pickle_take(m, 1);
        if (!op) return pickle_bad(m, "it does not end");
        if (*op == '.') break;
        const uint32_t size = pickle_operand(*op);
        const qsf_status st = size ? pickle_op_sized(m, *op, size) : pickle_op(m, *op);
        if (st) return st;
    }
    if (m->n_stack != 1 || m->n_marks) return pickle_bad(m, "it ends with no value, or with several");
    *out = m->stack[0];
    return QSF_OK;
}

qsf_status qsf_pickle_run(const qsf_platform *p, const char *path, const uint8_t *code, size_t len,
                          qsf_arena *arena, pickle_value *top, qsf_error *err)
{
    pickle_machine m = { .platform = p, .path = path, .code = code, .len = len, .arena = arena, .err = err };
    const qsf_status st = pickle_loop(&m, top);
    if (m.stack) qsf_dealloc(p, m.stack, (uint64_t)m.stack_cap * sizeof *m.stack);
    if (m.memo) qsf_dealloc(p, m.memo, (uint64_t)m.memo_cap * sizeof *m.memo);
    return st;
}
