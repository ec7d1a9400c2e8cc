/* A model that is no file of its own: it lies somewhere inside another file, as an archive holds
 * its members.
 * SPDX-License-Identifier: MIT
 *
 *   cc -o custom_file custom_file.c $(pkg-config --cflags --libs qsf)
 *   ./custom_file archive OFFSET LENGTH "Once upon a time"
 *
 * qsf_custom_file stands for any source of bytes that can be read at any place: memory, a range of
 * a larger file, a database, a server.  Reads block; only one thread at a time makes them. */
#define _POSIX_C_SOURCE 200809L
#define _FILE_OFFSET_BITS 64
#include <qsf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct member {
    FILE    *archive;
    uint64_t begin;
    uint64_t bytes_read;
} member;

/* Fills dst with bytes [at, at+len) of the member.
 * The library never asks for bytes beyond length. */
static qsf_status member_read(void *user, uint64_t at, void *dst, size_t len)
{
    member *m = user;
    if (fseeko(m->archive, (off_t)(m->begin + at), SEEK_SET)) return QSF_E_IO;
    if (fread(dst, 1, len, m->archive) != len) return QSF_E_IO;      /* a short read is an error */
    m->bytes_read += len;
    return QSF_OK;
}

/* Called once, whether the model was opened or not. */
static void member_close(void *user)
{
    member *m = user;
    fclose(m->archive);
    m->archive = NULL;
}

static void on_log(void *user, qsf_log_level level, const char *line)
{
    (void)user;
    if (level <= QSF_LOG_WARN) fprintf(stderr, "%s\n", line);
}

static qsf_status continue_text(qsf_model *model, const char *prompt, qsf_error *err)
{
    enum { MOST_PROMPT = 512, MOST_ANSWER = 50 };
    int32_t ids[MOST_PROMPT];
    size_t n;
    qsf_context *context = NULL;
    qsf_sampler *sampler = NULL;
    const float *logits;
    const char *piece;
    qsf_status st = qsf_context_new(model, NULL, &context, err);
    if (!st) st = qsf_sampler_new(model, NULL, &sampler, err);
    if (!st) st = qsf_tokens_encode(model, prompt, strlen(prompt), QSF_TOK_ADD_SPECIAL, ids, MOST_PROMPT, &n,
                                    err);
    if (!st && (st = qsf_feed(context, 0, ids, n, &logits)))
        snprintf(err->text, sizeof err->text, "%s", qsf_last_error(context));
    for (int i = 0; !st && i < MOST_ANSWER && qsf_seq_room(context, 0) > 0; i++) {
        const int32_t token = qsf_sampler_pick(sampler, logits);
        if (qsf_token_is_end(model, token)) break;
        const size_t bytes = qsf_token_piece(model, token, false, &piece);
        fwrite(piece, 1, bytes, stdout);
        if ((st = qsf_feed(context, 0, &token, 1, &logits)))
            snprintf(err->text, sizeof err->text, "%s", qsf_last_error(context));
    }
    putchar('\n');
    qsf_sampler_free(sampler);
    qsf_context_free(context);
    return st;
}

int main(int argc, char **argv)
{
    if (argc != 5) return fprintf(stderr, "usage: %s ARCHIVE OFFSET LENGTH PROMPT\n", argv[0]), 2;
    member m = { fopen(argv[1], "rb"), strtoull(argv[2], NULL, 10), 0 };
    if (!m.archive) return perror(argv[1]), 1;

    const qsf_custom_file file = {
        .size = sizeof file, .user = &m,
        .length = strtoull(argv[3], NULL, 10), .read = member_read, .close = member_close,
    };
    qsf_error err = { QSF_OK, "" };
    qsf_model *model = NULL;
    qsf_model_options o;
    qsf_model_defaults(&o);
    o.file = &file;                                /* copied: it need not outlive the call, but m must */
    o.log = on_log;
    qsf_status st = qsf_model_open(argv[1], &o, &model, &err);       /* the path is only a name here */
    if (!st) st = continue_text(model, argv[4], &err);
    qsf_model_close(model);                        /* calls member_close */
    if (st) fprintf(stderr, "%s\n", err.text);
    else fprintf(stderr, "%llu bytes were read\n", (unsigned long long)m.bytes_read);
    return st ? 1 : 0;
}
