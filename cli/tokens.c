/* --tokenize, --detokenize and --logits: the model's parts for scripts.
 * SPDX-License-Identifier: MIT */
#include "run.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

int run_tokenize(run_session *s)
{
    size_t len, n;
    const char *path = s->set->file ? s->set->file : "-";
    char *owned = s->set->prompt ? NULL : read_whole(path, &len);
    const char *text = s->set->prompt ? s->set->prompt : owned;
    if (!text) return EXIT_IO;
    if (s->set->prompt) len = strlen(text);
    const int flags = (s->set->add_special ? QSF_TOK_ADD_SPECIAL : 0) | (s->set->parse_special ? QSF_TOK_PARSE_SPECIAL : 0);
    int32_t *ids = session_encode(s, text, len, flags, &n);
    free(owned);
    if (!ids) return report(&s->error);
    putchar('[');
    for (size_t i = 0; i < n; i++) printf("%s%d", i ? "," : "", (int)ids[i]);
    printf("]\n");
    free(ids);
    return EXIT_OK;
}

int run_detokenize(run_session *s)
{
    size_t len;
    char *text = read_whole(s->set->file ? s->set->file : "-", &len);
    if (!text) return EXIT_IO;
    for (char *p = text; *p;) {
        const char *piece;
        char *end;
        if (isspace((unsigned char)*p) || strchr("[],", *p)) {
            p++;
            continue;
        }
        const long id = strtol(p, &end, 10);
        if (end == p || id < 0 || id > INT32_MAX) {
            fprintf(stderr, "--detokenize reads token ids with spaces or commas between them, not \"%.20s\"\n", p);
            free(text);
            return EXIT_USAGE;
        }
        const size_t n = qsf_token_piece(s->model, (int32_t)id, true, &piece);
        fwrite(piece, 1, n, stdout);
        p = end;
    }
    free(text);
    return EXIT_OK;
}

int run_logits(run_session *s, const char *prompt, size_t len)
{
    const float *logits;
    qsf_model_info info;
    size_t n;
    int32_t *ids = session_prompt(s, prompt, len, &n);
    if (!ids) return report(&s->error);
    const qsf_status st = qsf_feed(s->context, 0, ids, n, &logits);
    free(ids);
    if (st) return report_context(s->context, st);
    qsf_model_get_info(s->model, &info);
    putchar('[');
    for (uint32_t i = 0; i < info.n_vocab; i++) {
        if (i) putchar(',');
        if (isfinite(logits[i])) printf("%.9g", (double)logits[i]);
        else fputs("null", stdout);
    }
    printf("]\n");
    return EXIT_OK;
}
