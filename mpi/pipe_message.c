/* The pipeline's messages as bytes.
 * SPDX-License-Identifier: MIT */
#include "pipe_message.h"

#include "link.h"

#include <string.h>

/* What begins a message: its kind, and the bytes of its struct. */
typedef struct pipe_head { uint32_t kind, bytes; } pipe_head;

/* No padding, whose bytes would be uninitialized, and tails aligned for float. */
#define X(KIND, name, bytes, tail) \
    _Static_assert(sizeof(pipe_##name) == (bytes) && (bytes) % 4 == 0, #name);
PIPE_KINDS(X)
#undef X
_Static_assert(sizeof(pipe_head) == 8, "head");

static const struct { uint16_t bytes; bool has_tail; const char *name; } pipe_kinds[PIPE_N_KINDS] = {
#define X(KIND, name, bytes, tail) { bytes, tail, #name },
    PIPE_KINDS(X)
#undef X
};

unsigned char *pipe_begin(const pipe_message *m, size_t n_tail)
{
    const pipe_head head = { m->kind, pipe_kinds[m->kind].bytes };
    unsigned char *at = link_message(sizeof head + head.bytes + n_tail);
    memcpy(at, &head, sizeof head);
    memcpy(at + sizeof head, &m->as, head.bytes);
    return at + sizeof head + head.bytes;
}

void pipe_send(int to, const pipe_message *m)
{
    (void)pipe_begin(m, 0);
    link_go(to);
}

bool pipe_receive(int from, bool wait, pipe_message *m)
{
    const void *bytes;
    pipe_head head;
    const size_t len = link_receive(from, wait, &bytes);
    *m = (pipe_message){ .kind = PIPE_N_KINDS };
    if (!len) return false;
    if (len < sizeof head) {
        link_fail("rank %d sent a message of %zu bytes", from, len);
        return false;
    }
    memcpy(&head, bytes, sizeof head);
    if (head.kind >= PIPE_N_KINDS) {
        link_fail("rank %d sent a message of unknown kind %u", from, (unsigned)head.kind);
        return false;
    }
    const uint16_t expected = pipe_kinds[head.kind].bytes;
    const size_t whole = sizeof head + expected;
    if (head.bytes != expected || len < whole || (len > whole && !pipe_kinds[head.kind].has_tail)) {
        link_fail("rank %d sent a damaged \"%s\" message of %zu bytes", from, pipe_kinds[head.kind].name,
                  len);
        return false;
    }
    m->kind = (pipe_kind)head.kind;
    memcpy(&m->as, (const unsigned char *)bytes + sizeof head, head.bytes);
    m->tail = (const unsigned char *)bytes + whole;
    m->n_tail = len - whole;
    return true;
}

void pipe_expect(int from, pipe_kind kind, pipe_message *m)
{
    if (pipe_receive(from, true, m) && m->kind == kind) return;
    link_fail("rank %d sent a \"%s\" message; expected \"%s\"", from,
              m->kind < PIPE_N_KINDS ? pipe_kinds[m->kind].name : "damaged", pipe_kinds[kind].name);
}
