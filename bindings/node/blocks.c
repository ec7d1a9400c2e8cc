/* The memory that JavaScript addresses: blocks, each followed by zero bytes, so that a string or a
 * list of options that begins in a block also ends.
 * SPDX-License-Identifier: MIT */
#include "node.h"

#include <stdlib.h>

enum {
    NODE_PAD = 8,               /* zeros: a name, its value and the list may be cut off */
    NODE_GAP = 64               /* least distance of blocks: an address just after one is not in the next */
};
#define NODE_MOST ((size_t)1 << 40)

double node_block_add(node_engine *e, uint8_t *bytes, size_t len)
{
    if (len > NODE_MOST) return 0;
    if (e->n_blocks == e->cap_blocks) {
        const size_t cap = QSF_MAX(16, 2 * e->cap_blocks);
        node_block *more = realloc(e->blocks, cap * sizeof *more);
        if (!more) return 0;
        e->blocks = more;
        e->cap_blocks = cap;
    }
    node_block b = { .at = e->next_at, .len = len, .bytes = bytes, .is_own = !bytes };
    if (!bytes && !(b.bytes = calloc(1, len + NODE_PAD))) return 0;
    e->blocks[e->n_blocks++] = b;
    e->next_at += (double)((len + 2 * NODE_GAP - 1) / NODE_GAP * NODE_GAP);
    return b.at;
}

/* The last block that begins at or before an address; n_blocks: none. */
static size_t find(const node_engine *e, double at)
{
    size_t low = 0, high = e->n_blocks;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (e->blocks[middle].at <= at) low = middle + 1;
        else high = middle;
    }
    return low ? low - 1 : e->n_blocks;
}

void node_block_remove(node_engine *e, double at, bool is_own)
{
    const size_t i = find(e, at);
    if (i == e->n_blocks || e->blocks[i].at != at || e->blocks[i].is_own != is_own) return;
    if (is_own) free(e->blocks[i].bytes);
    memmove(e->blocks + i, e->blocks + i + 1, (--e->n_blocks - i) * sizeof *e->blocks);
}

node_block *node_block_at(node_engine *e, double at, size_t *offset)
{
    const size_t i = find(e, at);
    if (i == e->n_blocks || !(at - e->blocks[i].at <= (double)e->blocks[i].len)) return NULL;
    *offset = (size_t)(at - e->blocks[i].at);
    return &e->blocks[i];
}

uint8_t *node_bytes(node_engine *e, double at, size_t len, size_t align)
{
    size_t offset;
    const node_block *b = node_block_at(e, at, &offset);
    return b && len <= b->len - offset && offset % align == 0 ? b->bytes + offset : NULL;
}

void node_blocks_free(node_engine *e)
{
    for (size_t i = 0; i < e->n_blocks; i++)
        if (e->blocks[i].is_own) free(e->blocks[i].bytes);
    free(e->blocks);
    e->blocks = NULL;
    e->n_blocks = e->cap_blocks = 0;
}
