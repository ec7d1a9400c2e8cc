/* The messages of qsf-mpi's pipeline: what is written is read again, and what is not whole is
 * refused.  Here the link is a buffer.
 * SPDX-License-Identifier: MIT */
#include "../../mpi/pipe_message.c"

#include "test.h"

int link_rank = 1, link_ranks = 2;

static unsigned char sent[1024];
static size_t sent_len, delivered_len;          /* delivered_len: 0 if nothing has arrived */
static int n_failures;

void *link_message(size_t len)
{
    memset(sent, 0xa5, sizeof sent);
    sent_len = len;
    return sent;
}

void link_go(int to)
{
    CHECK_EQ(to, 0);
    delivered_len = sent_len;
}

size_t link_receive(int from, bool wait, const void **bytes)
{
    (void)from;
    (void)wait;
    *bytes = sent;
    return delivered_len;
}

void link_fail(const char *fmt, ...)
{
    (void)fmt;
    n_failures++;
}

static pipe_message example(pipe_kind kind)
{
    pipe_message m = { .kind = kind };
    memset(&m.as, 0x11 + (int)kind, pipe_kinds[kind].bytes);
    return m;
}

TEST(every_kind_is_read_as_it_was_written)
{
    static const unsigned char tail[12] = "0123456789a";
    for (int kind = 0; kind < PIPE_N_KINDS; kind++) {
        const pipe_message out = example((pipe_kind)kind);
        const size_t n_tail = pipe_kinds[kind].has_tail ? sizeof tail : 0;
        pipe_message in;
        memcpy(pipe_begin(&out, n_tail), tail, n_tail);
        link_go(0);
        n_failures = 0;
        CHECK(pipe_receive(0, true, &in));
        CHECK_EQ(n_failures, 0);
        CHECK_EQ(in.kind, kind);
        CHECK_EQ(memcmp(&in.as, &out.as, pipe_kinds[kind].bytes), 0);
        CHECK_EQ(in.n_tail, n_tail);
        CHECK_EQ(memcmp(in.tail, tail, n_tail), 0);
        CHECK_EQ((in.tail - sent) % (int)sizeof(float), 0);
    }
}

TEST(messages_that_are_not_whole_are_refused)
{
    for (int kind = 0; kind < PIPE_N_KINDS; kind++) {
        const pipe_message out = example((pipe_kind)kind);
        pipe_message in;
        pipe_send(0, &out);
        const size_t whole = sent_len;
        for (size_t len = 1; len < whole; len++) {
            delivered_len = len;
            n_failures = 0;
            CHECK(!pipe_receive(0, true, &in));
            CHECK_EQ(n_failures, 1);
        }
        delivered_len = whole + 4;              /* a tail that its kind does not have */
        n_failures = 0;
        CHECK_EQ(pipe_receive(0, true, &in), pipe_kinds[kind].has_tail);
        CHECK_EQ(n_failures, !pipe_kinds[kind].has_tail);
    }
}

TEST(unknown_kinds_and_sizes_are_refused)
{
    const pipe_message out = example(PIPE_TRUNCATE);
    pipe_message in;
    for (int at = 0; at < 8; at++) {            /* every byte of the head */
        pipe_send(0, &out);
        sent[at] ^= 0x80;
        n_failures = 0;
        CHECK(!pipe_receive(0, true, &in));
        CHECK_EQ(n_failures, 1);
    }
}

TEST(no_message_and_another_kind)
{
    const pipe_message out = example(PIPE_LENGTH);
    pipe_message in;
    delivered_len = 0;
    n_failures = 0;
    CHECK(!pipe_receive(0, false, &in));
    CHECK_EQ(n_failures, 0);
    pipe_send(0, &out);
    pipe_expect(0, PIPE_LENGTH, &in);
    CHECK_EQ(n_failures, 0);
    CHECK_EQ(in.as.length.length, out.as.length.length);
    pipe_expect(0, PIPE_LOGITS, &in);
    CHECK_EQ(n_failures, 1);
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(every_kind_is_read_as_it_was_written);
    RUN(messages_that_are_not_whole_are_refused);
    RUN(unknown_kinds_and_sizes_are_refused);
    RUN(no_message_and_another_kind);
    return test_end();
}
