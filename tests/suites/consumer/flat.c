/* A user of the installed flat layer that knows its header and nothing else: opens a tiny model and
 * answers.
 * SPDX-License-Identifier: MIT */
#include <qsf_flat.h>

#include "tiny_gguf.h"

static int failures;
#define CHECK(x) ((x) ? (void)0 : (void)(failures++, printf("line %d: not so: %s\n", __LINE__, #x)))

static int32_t number(uint32_t handle, const char *name)
{
    return (int32_t)qsf_flat_number(handle, qsf_flat_find(name, 0), 0);
}

/* Tokens of an answer, and the bytes of its text. */
static int answer(uint32_t context, uint32_t conversation, int32_t *bytes)
{
    const uint32_t a = qsf_flat_answer_new(conversation,
                                           "temperature\0" "0\0ignore-end\0true\0max-tokens\0" "8\0");
    char said[256];
    int n = 0;
    CHECK(!qsf_flat_conversation_text(conversation, "t100t200", 8));
    CHECK(!qsf_flat_answer_begin(a));
    while (!number(a, "end")) {
        const int32_t st = qsf_flat_answer_next(a);
        if (st == QSF_PENDING && qsf_flat_answer_step(a) & QSF_FLAT_WAITING) (void)qsf_flat_wait(context);
        if (st && st != QSF_PENDING) break;
        n += !st && number(a, "token") >= 0;
        while (qsf_flat_answer_event(a) == QSF_ANSWER_TEXT)
            *bytes += qsf_flat_text(a, QSF_TEXT_EVENT, 0, said, sizeof said);
    }
    CHECK(number(a, "end") == QSF_TURN_MOST);
    qsf_flat_free(a);
    return n;
}

int main(void)
{
    char text[512];
    int32_t bytes = 0;
    const uint32_t model = qsf_flat_model_new(NULL, NULL);
    CHECK(qsf_flat_model_open(model, "no/such/file", NULL) == QSF_E_NOT_FOUND);
    CHECK(qsf_flat_text(model, qsf_flat_find("error", 1), 0, text, sizeof text) > 0);
    CHECK(strstr(text, "no such file") != NULL);
    tiny_gguf_write("tiny.gguf");
    CHECK(!qsf_flat_model_open(model, "tiny.gguf", NULL));
    CHECK(qsf_flat_text(model, qsf_flat_find("name", 1), 0, text, sizeof text) == 4 && !strcmp(text, "Tiny"));
    CHECK(number(model, "layers") == LAYERS && number(model, "vocabulary") == VOCAB);
    const uint32_t context = qsf_flat_context_new(model);
    CHECK(!qsf_flat_context_open(context, "threads\0" "1\0"));
    const uint32_t conversation = qsf_flat_conversation_new(context, NULL);
    CHECK(!qsf_flat_status(conversation));
    CHECK(answer(context, conversation, &bytes) == 8 && bytes > 0);
    CHECK(number(conversation, "length") > 8);
    qsf_model_info info = { .size = sizeof info };      /* qsf.h comes with it */
    CHECK(!qsf_model_get_info(qsf_flat_model(model), &info) && info.n_layers == LAYERS);
    qsf_flat_free(model);
    qsf_flat_free(context);
    qsf_flat_free(conversation);
    CHECK(qsf_flat_status(conversation) == QSF_E_ARGUMENT);
    remove("tiny.gguf");
    if (failures) printf("%d failed\n", failures);
    else printf("ok\n");
    return failures > 0;
}
