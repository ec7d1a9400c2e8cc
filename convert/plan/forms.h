/* The types and blocks that a matrix can become, by name and by size.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_FORMS_H
#define QSF_CONVERT_FORMS_H

#include "plan/plan.h"

enum { CONVERT_FORMS = 11, CONVERT_MIXED_LEAST = 3 /* the smallest form of `mixed` */ };

typedef struct convert_form { uint32_t type, block; } convert_form;

/* A preset's form for layers, for the embedding (which is also a tied head), and for a separate
 * head. */
typedef struct convert_forms { convert_form layer, embd, head; } convert_forms;
const convert_forms *qsf_conv_preset_forms(qsf_convert_preset p);    /* p is a preset */

bool qsf_conv_type_find(const char *name, uint32_t *type);   /* "4bit_s": a type a tensor can be given */

/* Sets type, block and packing of c to form f of [0, CONVERT_FORMS), smallest first. */
void qsf_conv_set_form(int f, const qsf_convert_options *o, convert_tensor *c);
/* Gives c the next larger form, with its bytes; false: it has the largest. */
bool qsf_conv_raise(const input_tensor *t, const qsf_convert_options *o, convert_tensor *c);

#endif
