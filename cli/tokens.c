/* --tokenize, --detokenize and --logits: the model's parts for scripts.
 * SPDX-License-Identifier: MIT */
#include "run.h"

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
    const int flags = (s->set->add_special ? QSF_TOK_ADD_SPECIAL : 0)
        | (s->set->parse_special ? QSF_TOK_PARSE_SPECIAL : 0);
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
    size_t len, n;
    char *text = read_whole(s->set->file ? s->set->file : "-", &len);
    if (!text) return EXIT_IO;
    int32_t *ids = session_ids(s, text, len, "--detokenize", &n);
    free(text);
    if (!ids) return report(&s->error);
    for (size_t i = 0; i < n; i++) {
        const char *piece;
        const size_t bytes = qsf_token_piece(s->model, ids[i], true, &piece);
        fwrite(piece, 1, bytes, stdout);
    }
    free(ids);
    return EXIT_OK;
}

int run_logits(run_session *s, const char *prompt, size_t len)
{
    qsf_model_info info = { .size = sizeof info };
    if (!session_prompt(s, prompt, len)) return report(&s->error);
    const int code = generate_prompt(s, "the prompt");
    if (code) return code;
    const float *logits = qsf_logits(s->context, 0);
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
