/* Members, types and ranges of a receipt that was read.  Depth is the table's, not the receipt's.
 * SPDX-License-Identifier: MIT */
#include <string.h>

#include "receipt.h"
#include "receipt_own.h"

typedef struct shape { char path[160]; qsf_error *err; } shape;

static qsf_status shape_wrong(const shape *s, const char *name, const char *wanted)
{
    return parity_fail(s->err, QSF_E_CORRUPT, "the receipt's %s%s%s: %s", s->path, *s->path ? "." : "", name,
                       wanted);
}

static bool shape_hex(yyjson_val *v, size_t digits)
{
    if (!yyjson_is_str(v) || yyjson_get_len(v) != digits) return false;
    return strspn(yyjson_get_str(v), "0123456789abcdef") == digits;
}

static bool shape_word(yyjson_val *v, const char *words)
{
    const char *text = yyjson_get_str(v);
    if (!text || strlen(text) != yyjson_get_len(v)) return false;
    for (const char *p = words; *p;) {
        const size_t n = strcspn(p, "|");
        if (n == yyjson_get_len(v) && !memcmp(p, text, n)) return true;
        p += n + (p[n] == '|');
    }
    return false;
}

static bool shape_whole(yyjson_val *v, double most)
{
    return yyjson_is_uint(v) && (double)yyjson_get_uint(v) <= most;
}

/* Characters, not bytes, as the schema counts. */
static bool shape_text(yyjson_val *v, double most)
{
    size_t n = 0;
    if (!yyjson_is_str(v)) return false;
    for (size_t i = 0; i < yyjson_get_len(v); i++) n += ((unsigned char)yyjson_get_str(v)[i] & 0xc0) != 0x80;
    return (double)n <= most;
}

static qsf_status shape_of(shape *s, yyjson_val *v, const field *f);

static qsf_status shape_object(shape *s, yyjson_val *v, const field *f, const char *name)
{
    size_t i, n, known = 0;
    yyjson_val *key, *value;
    const size_t len = strlen(s->path);
    if (!yyjson_is_obj(v)) return shape_wrong(s, name, "expected an object");
    if (f != &receipt_root) {
        strncat(s->path, len ? "." : "", sizeof s->path - len - 1);
        strncat(s->path, name, sizeof s->path - strlen(s->path) - 1);
    }
    for (i = 0; i < f->n_members; i++) {
        const field *m = &f->members[i];
        yyjson_val *member = yyjson_obj_get(v, m->name);
        known += member != NULL;
        if (!member && !(m->flags & FIELD_MAY)) return shape_wrong(s, m->name, "it is missing");
        const qsf_status st = member ? shape_of(s, member, m) : QSF_OK;
        if (st) return st;
    }
    n = yyjson_obj_size(v);
    if (n != known) {
        yyjson_obj_foreach(v, i, n, key, value) {
            bool is = false;
            for (size_t k = 0; k < f->n_members && !is; k++) is = yyjson_equals_str(key, f->members[k].name);
            if (!is) return shape_wrong(s, unsafe_yyjson_get_str(key), "unknown member");
        }
        return shape_wrong(s, "", "a member occurs twice");
    }
    s->path[len] = 0;
    return QSF_OK;
}

static qsf_status shape_list(shape *s, yyjson_val *v, const field *f)
{
    size_t i, n;
    yyjson_val *item;
    if (!yyjson_is_arr(v)) return shape_wrong(s, f->name, "expected a list");
    if ((double)yyjson_arr_size(v) < f->least || (double)yyjson_arr_size(v) > f->most)
        return shape_wrong(s, f->name, "expected a list of another length");
    yyjson_arr_foreach(v, i, n, item) {
        if (f->kind == FIELD_LIST) {
            const qsf_status st = shape_object(s, item, f, f->name);
            if (st) return st;
        } else if (f->kind == FIELD_IDS ? !shape_whole(item, 2147483647) : !yyjson_is_str(item)) {
            return shape_wrong(s, f->name, f->kind == FIELD_IDS ? "expected token ids"
                               : "expected strings");
        }
    }
    return QSF_OK;
}

/* An object with any names. */
static qsf_status shape_named(shape *s, yyjson_val *v, const field *f)
{
    size_t i, n;
    yyjson_val *key, *value;
    const bool counts = f->kind == FIELD_COUNTS;
    if (!yyjson_is_obj(v)) return shape_wrong(s, f->name, "expected an object");
    yyjson_obj_foreach(v, i, n, key, value) {
        if (counts ? !shape_whole(value, f->most) : !shape_text(value, f->most))
            return shape_wrong(s, f->name, counts ? "expected counts" : "expected short strings");
    }
    return QSF_OK;
}

static qsf_status shape_of(shape *s, yyjson_val *v, const field *f)
{
    const double x = yyjson_get_num(v);
    if (yyjson_is_null(v) && f->flags & FIELD_NULL) return QSF_OK;
    switch (f->kind) {
    case FIELD_OBJECT: return shape_object(s, v, f, f->name);
    case FIELD_TEXT: return shape_text(v, f->most) ? QSF_OK : shape_wrong(s, f->name,
                                                                          "expected a shorter string");
    case FIELD_WORD: return shape_word(v, f->words) ? QSF_OK : shape_wrong(s, f->name, f->words);
    case FIELD_SUM:
    case FIELD_HEX:
        return shape_hex(v, (size_t)f->most) ? QSF_OK : shape_wrong(s, f->name,
                                                                    "expected hexadecimal digits");
    case FIELD_FLAG: return yyjson_is_bool(v) ? QSF_OK : shape_wrong(s, f->name, "expected true or false");
    case FIELD_WHOLE:
        return shape_whole(v, f->most) ? QSF_OK : shape_wrong(s, f->name,
                                                              "expected a whole number from 0");
    case FIELD_NUMBER:
        return yyjson_is_num(v) && x >= f->least && x <= f->most ? QSF_OK
               : shape_wrong(s, f->name, "expected a number in its range");
    case FIELD_COUNTS:
    case FIELD_NAMED: return shape_named(s, v, f);
    default: return shape_list(s, v, f);
    }
}

qsf_status receipt_shape(yyjson_val *root, qsf_error *err)
{
    shape s = { .err = err };
    return shape_object(&s, root, &receipt_root, "");
}
