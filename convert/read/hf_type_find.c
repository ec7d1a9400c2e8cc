/* Which type a config.json means, and what this type calls a tensor.
 * SPDX-License-Identifier: MIT */
#include "read/hf_type_find.h"

const hf_type *qsf_hf_type_find(const char *type, const char *class_name)
{
    for (const hf_type *t = qsf_hf_types; t->type && class_name; t++) {
        const char *other = type && t->other_type ? t->other_type : "";
        const bool named = !strcmp(class_name, t->class_name) ||
                           (t->other_class && !strcmp(class_name, t->other_class));
        if (named && (!type || !strcmp(type, other))) return t;
    }
    for (const hf_type *t = qsf_hf_types; t->type && type; t++)
        if (!strcmp(type, t->type)) return t;
    return NULL;
}

hf_named qsf_hf_type_name(const hf_type *t, const qsf_hparams *hp, const qsf_layer *layer,
                          const qsf_role *role)
{
    const uint64_t own = qsf_role_outputs(hp, layer, role);
    const hf_alias *n = t->names, *other;
    while (n && n->name && (n->kind != role->kind || (n->how & HF_SHARED && !layer->n_experts))) n++;
    if (!n || !n->name) return (hf_named){ .name = role->hf, .all = own };
    hf_named out = { .name = n->name, .part = n->part, .how = n->how, .all = own };
    for (other = t->names; n->part && other->name; other++) {
        if (other == n || strcmp(other->name, n->name)) continue;
        const uint64_t theirs = qsf_role_outputs(hp, layer, qsf_role_of(other->kind));
        out.all += theirs;
        if (other < n) out.first += theirs;
    }
    return out;
}
