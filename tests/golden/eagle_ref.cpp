// What llama.cpp computes with an EAGLE 3 head: of a prompt of token ids, and of greedy guesses
// after it.
// SPDX-License-Identifier: MIT
//
//     eagle_ref MODEL.gguf HEAD.gguf STEPS ID...
//
// stdout, one line of numbers each: the model's logits after the last id, what the head takes of
// its row, then for each step the head's hidden state and its logits, by the model's tokens.  The
// head's row p is made of the model's row p and of token p + 1; from the second step on, of its own
// state.
// Linked against llama.cpp's libraries like llama_ref.cpp (README.md), with -I$L/src in addition.
#include "llama-ext.h"
#include "llama.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

static void line(const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) printf("%s%.7g", i ? "," : "", (double)x[i]);
    printf("\n");
}

static llama_context *open(const char *path, llama_context *other, llama_model **m)
{
    llama_model_params mp = llama_model_default_params();
    llama_context_params cp = llama_context_default_params();
    mp.n_gpu_layers = 0;
    *m = llama_model_load_from_file(path, mp);
    if (!*m) exit(1);
    cp.n_ctx = 256;
    cp.n_batch = cp.n_ubatch = 64;
    cp.n_threads = cp.n_threads_batch = 1;
    cp.type_k = cp.type_v = GGML_TYPE_F32;
    cp.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
    cp.ctx_other = other;
    llama_context *c = llama_init_from_model(*m, cp);
    if (!c) exit(1);
    return c;
}

// Rows with a token each, with states, or with both.
static void process(llama_context *c, llama_process_type type, const std::vector<llama_token> &ids,
                    const std::vector<float> &states, size_t rows, llama_pos first)
{
    llama_batch_ext *b = llama_batch_ext_init(c);
    const size_t width = states.size() / rows;
    for (size_t i = 0; i < rows; i++) {
        const llama_embd embd = { states.data() + i * width, 1, width };
        const llama_pos pos = first + (llama_pos)i;
        const int32_t at = ids.empty() ? llama_batch_ext_add_embd(b, 0, embd)
            : llama_batch_ext_add_token(b, 0, ids[i]);
        if (!ids.empty() && width) llama_batch_ext_set_embd_token(b, at, embd);
        llama_batch_ext_set_pos(b, at, &pos);
        llama_batch_ext_set_output_logits(b, at, true);
    }
    if (llama_process(c, type, b)) exit(1);
    llama_batch_ext_free(b);
}

int main(int argc, char **argv)
{
    llama_model *target, *head;
    if (argc < 6) return 1;
    llama_log_set([](ggml_log_level level, const char *text, void *) {
        if (level == GGML_LOG_LEVEL_ERROR) fputs(text, stderr);
    }, nullptr);
    llama_context *c = open(argv[1], nullptr, &target), *d = open(argv[2], c, &head);
    std::vector<llama_token> ids;
    for (int i = 4; i < argc; i++) ids.push_back(atoi(argv[i]));
    const size_t n = ids.size(), width = llama_model_n_embd(target), own = llama_model_n_embd(head);
    const size_t n_vocab = llama_vocab_n_tokens(llama_model_get_vocab(target));
    const int32_t *taps = llama_model_target_layer_ids(head);
    for (int k = 0; k < 3; k++) llama_set_embeddings_layer_inp(c, taps[k], true);
    llama_set_embeddings_nextn(d, true, true);
    process(c, LLAMA_PROCESS_TYPE_DECODE, ids, {}, n, 0);
    const float *logits = llama_get_logits_ith(c, (int)n - 1);
    line(logits, n_vocab);
    std::vector<float> features(n * 3 * width), states;
    for (int k = 0; k < 3; k++)
        for (size_t i = 0; i < n; i++)
            std::copy_n(llama_get_embeddings_layer_inp(c, taps[k]) + i * width, width,
                        features.begin() + (i * 3 + k) * width);
    line(features.data() + (n - 1) * 3 * width, 3 * width);
    process(d, LLAMA_PROCESS_TYPE_ENCODE, {}, features, n, 0);
    states.assign(llama_get_embeddings_nextn(d), llama_get_embeddings_nextn(d) + n * own);
    ids.erase(ids.begin());
    ids.push_back((llama_token)(std::max_element(logits, logits + n_vocab) - logits));
    for (int step = 0, pos = 0; step < atoi(argv[3]); step++) {
        process(d, LLAMA_PROCESS_TYPE_DECODE, ids, states, ids.size(), pos);
        const int last = (int)ids.size() - 1;
        const float *x = llama_get_logits_ith(d, last), *state = llama_get_embeddings_nextn_ith(d, last);
        line(state, own);
        line(x, n_vocab);
        pos += (int)ids.size();
        ids = { (llama_token)(std::max_element(x, x + n_vocab) - x) };
        states.assign(state, state + own);
    }
    return 0;
}
