/* Fuzz target: any bytes as the body of a request.  The first byte chooses the API and whether
 * unsupported fields are refused, or another server's path whose bodies are rewritten first.
 * SPDX-License-Identifier: MIT */
#include "kept_responses.h"
#include "rewrite.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What every request that was taken is. */
static void fuzz_check(const serve_request *r)
{
    size_t sum = 0;
    if (strlen(r->ignored) >= sizeof r->ignored || (r->strict && *r->ignored)) abort();
    for (const char *c = r->ignored; *c; c++) if (*c < ' ' || *c > '~') abort();     /* a header line */
    if (r->n_stop_ids > SERVE_STOPS || r->n_renamed > SERVE_TOOLS) abort();
    for (size_t i = 0; i < r->n_renamed; i++) sum += strlen(r->renamed[i].seen) + strlen(r->renamed[i].name);
    if (r->n_messages && (r->n_instructions >= r->messages.len || r->n_system > r->n_messages)) abort();
    if (r->n < 1 || r->n > SERVE_CHOICES || r->n_stops > SERVE_STOPS - 2 || r->max_tokens < -1) abort();
    const qsf_sampler_options *o = &r->sampler;
    if (!(o->temperature >= 0) || !(o->top_p >= 0 && o->top_p <= 1) || !(o->top_n_sigma >= 0)) abort();
    const bool lora = r->api & (API_LORA_LOAD | API_LORA_UNLOAD);
    if ((!lora && !r->n_prompts == !r->n_messages) || serve_request_each(r) > SERVE_CHOICES) abort();
    if (r->logprobs < -1 || r->logprobs > QSF_LOGPROBS_MOST || r->n_biases > SERVE_BIASES) abort();
    if (r->n_prompts > (r->api & API_EMBEDDED ? SERVE_INPUTS : SERVE_CHOICES)) abort();
    if (r->dimensions < 0 || r->top_n < 0 || (r->api == API_RERANK && r->n_prompts < 2)) abort();
    for (size_t i = 0; i < r->n_prompts; i++) {
        const serve_prompt *p = &r->prompts[i];
        for (size_t k = 0; k < p->n_ids; k++) if (p->ids[k] < 0) abort();
        for (size_t k = 0; k < p->len; k++) sum += (unsigned char)p->text[k];
    }
    if (r->n_messages && strlen(r->messages.text) != r->messages.len) abort();
    if (r->tools) sum += strlen(r->tools) + strlen(r->tool_choice);
    if (r->kwargs) sum += strlen(r->kwargs);
    for (size_t i = 0; i < r->shape.text.len; i++) sum += (unsigned char)r->shape.text.text[i];
    for (size_t i = 0; i < r->n_biases; i++) if (r->biases[i].token < 0) abort();
    for (size_t i = 0; i < r->n_bans; i++) sum += strlen(r->bans[i].text);
    for (size_t i = 0; i < r->n_breakers; i++) sum += r->breakers[i].len;
    for (size_t i = 0; i < r->n_stops; i++) sum += strlen(r->stops[i]) + r->stop_lengths[i];
    for (size_t i = 0; i < r->n_scales; i++) if (!(r->scales[i].scale <= 1e6f)) abort();
    if (lora && (!r->lora_name || (!r->lora_path && r->api == API_LORA_LOAD))) abort();
    if (r->lora_path && (*r->lora_path == '/' || strstr(r->lora_path, "/.."))) abort();
    for (size_t i = 0; i < r->n_extra; i++) sum += strlen(r->extra[i].text) + r->extra[i].len;
    if (r->n_extra % 2 || (r->n_extra && !r->infill)) abort();
    for (size_t i = 0; i < r->middle.len; i++) sum += (unsigned char)r->middle.text[i];
    if (r->n_queries != 1 && (r->api != API_RERANK || r->n_prompts != 2 * r->n_queries)) abort();
    if (sum == SIZE_MAX) abort();           /* all of it was read */
}

/* A response with the id "r" that requests may continue. */
static const kept_responses *fuzz_kept(void)
{
    static const char json[] = "{\"output\":[{\"type\":\"message\",\"id\":\"m_r_0\",\"role\":\"assistant\","
        "\"content\":[{\"type\":\"output_text\",\"text\":\"a\"}]},{\"type\":\"custom_tool_call\",\"id\":"
        "\"c_r_1\",\"call_id\":\"c\",\"name\":\"f\",\"input\":\"b\"}]}";
    static const char messages[] = "{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\"}";
    static kept_responses kept;
    serve_text first = { 0 }, second = { 0 };
    if (kept.ages) return &kept;
    text_str(&first, json);
    text_str(&second, messages);
    kept_responses_add(&kept, "r", 0, &first, &second, 2);
    return &kept;
}

static void fuzz_read(serve_api api, bool strict, const char *text, size_t len)
{
    serve_defaults defaults = { .max_tokens = -1, .reasoning_budget = (int)(len % 2) - 1, .kept = fuzz_kept(),
                                .kwargs = len % 3 ? NULL : "{\"enable_thinking\":true,\"k\":[1]}",
                                .strict = strict };
    serve_request r;
    serve_error e;
    qsf_sampler_defaults(&defaults.sampler);
    if (serve_request_read(&r, api, text, len, &defaults, &e)) {
        if (e.status) abort();
        fuzz_check(&r);
    } else if (e.status < 400 || !*e.text || !e.type) {
        abort();
    }
    serve_request_free(&r);
}

/* If a rewriter accepts the body, its result must be JSON. */
static void fuzz_rewrite(serve_rewriter rewrite, const char *text, size_t len)
{
    serve_rewritten out = { .asks = 0 };
    serve_error e = { 0 };
    if (rewrite(text, len, &out, &e)) {
        if (e.status || !out.json.len || !out.api) abort();
        serve_error none;
        serve_request r;
        if (!serve_request_read(&r, out.api, out.json.bytes, out.json.len, &(serve_defaults){ 0 }, &none)
            && none.code && !strcmp(none.code, "invalid_json") && !strstr(none.text, "deeper")) abort();
        serve_request_free(&r);
        fuzz_read(out.api, false, out.json.bytes, out.json.len);
    } else if (e.status < 400 || !*e.text || !e.type) {
        abort();
    }
    text_free(&out.json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const serve_rewriter rewriters[] = { rewrite_ollama_chat, rewrite_ollama_generate,
                                                rewrite_ollama_embed, rewrite_ollama_embeddings,
                                                rewrite_ollama_model, rewrite_completion, rewrite_infill,
                                                rewrite_embedding, rewrite_score, rewrite_tokenize };
    enum { APIS = 15, STRICT = 128, REWRITERS = sizeof rewriters / sizeof *rewriters, FIRST = 200 };
    if (!size) return 0;
    char *text = malloc(size);
    memcpy(text, data + 1, size - 1);
    if (data[0] >= FIRST) fuzz_rewrite(rewriters[(data[0] - FIRST) % REWRITERS], text, size - 1);
    else fuzz_read((serve_api)(1 << data[0] % APIS), data[0] >= STRICT, text, size - 1);
    serve_scale scales[SERVE_SCALES];
    size_t n;
    serve_error e = { 0 };
    if (serve_scales_read(text, size - 1, scales, &n, &e) ? n > SERVE_SCALES : !e.status) abort();
    free(text);
    return 0;
}
