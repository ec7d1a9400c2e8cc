/* The end of a grammar's construction: what is checked then, and what its automaton starts with.
 * SPDX-License-Identifier: MIT */
#include "grammar/grammar_own.h"

/* Bytes that no node tells apart become one class. */
static void gram_classify(qsf_grammar *g)
{
    uint16_t class[256] = { 0 };
    uint32_t n = 1;
    bool done[256] = { 0 };
    for (uint32_t i = 0; i < g->pairs.n && n < 256; i++) {
        const gram_node *x = gram_at(g, (uint32_t)GRAM_U64(g->pairs)[i]);
        if (x->kind == GK_SET) {
            uint16_t split[256] = { 0 };        /* class -> the new one of its bytes that are in the set */
            uint32_t in[256] = { 0 }, all[256] = { 0 };
            for (uint32_t b = 0; b < 256; b++) {
                all[class[b]]++;
                in[class[b]] += gram_has_byte(g, x->a, (uint8_t)b);
            }
            for (uint32_t b = 0; b < 256; b++) {
                const uint16_t c = class[b];
                if (!gram_has_byte(g, x->a, (uint8_t)b) || in[c] == all[c]) continue;
                if (!split[c]) split[c] = (uint16_t)n++;
                class[b] = split[c];
            }
        } else if (x->kind == GK_LIT) {
            for (uint32_t k = 0; k < x->b; k++) {
                const uint8_t b = ((uint8_t *)g->bytes.p)[x->a + k];
                if (done[b]) continue;
                done[b] = true;
                for (uint32_t other = 0; other < 256; other++)
                    if (other != b && class[other] == class[b]) {
                        class[b] = (uint16_t)n++;
                        break;
                    }
            }
        }
    }
    g->n_classes = n;
    for (uint32_t b = 0; b < 256; b++) {
        g->classes[b] = (uint8_t)class[b];
        g->sample[class[b]] = (uint8_t)b;
        g->class_size[class[b]]++;
    }
}

qsf_status qsf_grammar_finish(qsf_grammar_builder *b, qsf_gnode root, qsf_grammar **out, qsf_error *err)
{
    qsf_grammar *g = (qsf_grammar *)b;
    *out = NULL;
    if (!root && !g->status) qsf_gram_fail(g, QSF_E_ARGUMENT, "the grammar has no root");
    g->root = root;
    if (!g->status) qsf_gram_order(g);
    for (uint32_t i = 0; i < g->pairs.n && !g->status; i++) {
        const gram_node *n = gram_at(g, (uint32_t)GRAM_U64(g->pairs)[i]);
        if (n->kind == GK_RULE && !GRAM_U32(g->rules)[n->a])
            qsf_gram_fail(g, QSF_E_ARGUMENT, "a rule of the grammar has no definition");
    }
    if (!g->status) qsf_gram_settle(g);
    if (!g->status) qsf_gram_unleft(g);
    if (!g->status) {
        gram_classify(g);
        qsf_gram_push(g, &g->rows, sizeof(uint32_t), 1);        /* 0 means: no row */
        bool dead = false;
        for (uint32_t i = 0; i < g->pairs.n && !g->status; i++) {
            const uint32_t id = (uint32_t)GRAM_U64(g->pairs)[i];
            if (gram_at(g, id)->kind == GK_AND) dead |= !qsf_gram_live(g, id);
            for (uint32_t k = 0; k < g->notes.n && g->status; k++) {
                const gram_note *note = (gram_note *)g->notes.p + k;
                if (note->node == id) qsf_g_locate(b, note->where);
            }
        }
        qsf_gram_release(g, &g->notes, sizeof(gram_note));
        if (dead) qsf_gram_settle(g);
        g->pairs.n = 0;
    }
    if (!g->status && gram_is(g, root, GF_DEAD))
        qsf_gram_fail(g, QSF_E_ARGUMENT, "no string fits the grammar");
    if (g->status) {
        const qsf_status st = g->status;
        if (err) *err = g->err;
        qsf_grammar_drop(g);
        return st;
    }
    g->base_nodes = g->nodes.n;
    g->base_lists = g->lists.n;
    *out = g;
    return QSF_OK;
}
