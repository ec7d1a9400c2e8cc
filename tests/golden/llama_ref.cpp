// What llama.cpp computes: greedy tokens, their margins and logits, for prompts given as token ids.
// SPDX-License-Identifier: MIT
//
//     llama_ref MODEL.gguf [-n STEPS] [-c CTX] [-t THREADS] [--kv f16|f32] [--flash on|off|auto]
//               [--lora FILE[:SCALE]]... [--top K] [--pool none|mean|cls|last|rank]
//
// stdin: one prompt a line, its ids separated by spaces.  A line "text: ..." is tokenised first
// (special tokens parsed, begin-of-text as the model asks; \n, \t and \\ are escapes).
// stdout: one JSON line a prompt:
//     prompt   ids
//     greedy   ids of at most STEPS steps, the last one is the end token where one came
//     ended    bool
//     margin   largest minus second largest logit at each step
//     embedding   with --pool, instead of all else but the prompt: its embedding, or of each
//              token one behind the other
//     logits   after the last prompt token: all of them, or with --top K pairs [id, logit], largest
//              first
// Linked against llama.cpp's libraries: README.md beside this file has the command, and the one
// for bitnet.cpp's older ones.
#include "llama.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#ifdef LLAMA_OF_2024    // bitnet.cpp's: what llama.h lacked then
using llama_vocab = llama_model;
static llama_model *llama_model_load_from_file(const char *path, llama_model_params p)
{
    return llama_load_model_from_file(path, p);
}
static llama_context *llama_init_from_model(llama_model *m, llama_context_params p)
{
    return llama_new_context_with_model(m, p);
}
static const llama_vocab *llama_model_get_vocab(const llama_model *m) { return m; }
static int llama_vocab_n_tokens(const llama_vocab *v) { return llama_n_vocab(v); }
static bool llama_vocab_is_eog(const llama_vocab *v, llama_token id) { return llama_token_is_eog(v, id); }
static void llama_model_free(llama_model *m) { llama_free_model(m); }
static void forget(llama_context *ctx) { llama_kv_cache_clear(ctx); }
static llama_batch batch_of(std::vector<llama_token> &ids, int pos)
{
    return llama_batch_get_one(ids.data(), (int)ids.size(), pos, 0);
}
static void set_flash(llama_context_params *p, const std::string &flash) { p->flash_attn = flash == "on"; }
#else
static void forget(llama_context *ctx) { llama_memory_clear(llama_get_memory(ctx), true); }
static llama_batch batch_of(std::vector<llama_token> &ids, int)
{
    return llama_batch_get_one(ids.data(), (int)ids.size());
}
static void set_flash(llama_context_params *p, const std::string &flash)
{
    p->flash_attn_type = flash == "on" ? LLAMA_FLASH_ATTN_TYPE_ENABLED
                       : flash == "auto" ? LLAMA_FLASH_ATTN_TYPE_AUTO : LLAMA_FLASH_ATTN_TYPE_DISABLED;
}
#endif

struct Options {
    const char *model = nullptr;
    int steps = 32, n_ctx = 1024, threads = 2, top = 0;
    std::vector<std::string> lora;
    std::string kv = "f16", flash = "off", pool;
};

static void die(const std::string &why)
{
    std::cerr << "llama_ref: " << why << "\n";
    std::exit(1);
}

static Options parse(int argc, char **argv)
{
    Options o;
    for (int i = 1; i < argc; i++) {
        const std::string a = argv[i];
        if (a[0] != '-') { o.model = argv[i]; continue; }
        if (i + 1 == argc) die("no value for " + a);
        const char *v = argv[++i];
        if (a == "-n") o.steps = std::atoi(v);
        else if (a == "-c") o.n_ctx = std::atoi(v);
        else if (a == "-t") o.threads = std::atoi(v);
        else if (a == "--kv") o.kv = v;
        else if (a == "--flash") o.flash = v;
        else if (a == "--pool") o.pool = v;
        else if (a == "--lora") o.lora.push_back(v);
        else if (a == "--top") o.top = std::atoi(v);
        else die("unknown option " + a);
    }
    if (!o.model) die("no model");
    return o;
}

static std::vector<llama_token> read_prompt(const llama_vocab *vocab, const std::string &line)
{
    std::vector<llama_token> ids;
    if (line.rfind("text: ", 0) == 0) {
        std::string text;
        for (size_t i = 6; i < line.size(); i++) {
            if (line[i] != '\\' || i + 1 == line.size()) { text += line[i]; continue; }
            const char c = line[++i];
            text += c == 'n' ? '\n' : c == 't' ? '\t' : c;
        }
        ids.resize(text.size() + 8);
        const int n = llama_tokenize(vocab, text.data(), (int)text.size(), ids.data(), (int)ids.size(), true,
                                     true);
        if (n < 0) die("cannot tokenise");
        ids.resize((size_t)n);
    } else {
        std::istringstream in(line);
        for (llama_token id; in >> id;) ids.push_back(id);
    }
    if (ids.empty()) die("empty prompt");
    return ids;
}

template <typename T> static void print_list(const char *name, const std::vector<T> &list, const char *format)
{
    std::printf("\"%s\": [", name);
    for (size_t i = 0; i < list.size(); i++) { std::printf(i ? ", " : ""); std::printf(format, list[i]); }
    std::printf("]");
}

static void print_logits(const float *logits, int n_vocab, int top)
{
    std::printf("\"logits\": [");
    if (top == 0) {
        for (int i = 0; i < n_vocab; i++) std::printf("%s%.6g", i ? ", " : "", logits[i]);
    } else {
        std::vector<int> order((size_t)n_vocab);
        std::iota(order.begin(), order.end(), 0);
        std::partial_sort(order.begin(), order.begin() + top, order.end(),
                          [&](int a, int b) { return logits[a] > logits[b]; });
        for (int i = 0; i < top; i++)
            std::printf("%s[%d, %.6g]", i ? ", " : "", order[(size_t)i], logits[order[(size_t)i]]);
    }
    std::printf("]");
}

static void run(llama_context *ctx, const llama_vocab *vocab, std::vector<llama_token> prompt,
                const Options &o)
{
    const int n_vocab = llama_vocab_n_tokens(vocab);
    std::vector<llama_token> greedy, next = prompt;
    std::vector<double> margin;
    bool ended = false;
    int pos = 0;
    forget(ctx);
    std::printf("{");
    print_list("prompt", prompt, "%d");
    std::printf(", ");
    while (true) {
        if (llama_decode(ctx, batch_of(next, pos))) die("llama_decode failed");
        pos += (int)next.size();
        const float *logits = llama_get_logits_ith(ctx, -1);
        if (greedy.empty()) { print_logits(logits, n_vocab, o.top); std::printf(", "); }
        const int best = (int)(std::max_element(logits, logits + n_vocab) - logits);
        float second = -INFINITY;
        for (int i = 0; i < n_vocab; i++) if (i != best) second = std::max(second, logits[i]);
        greedy.push_back(best);
        margin.push_back((double)logits[best] - second);
        ended = llama_vocab_is_eog(vocab, best);
        if (ended || (int)greedy.size() >= o.steps) break;
        next.assign(1, best);
    }
    print_list("greedy", greedy, "%d");
    std::printf(", ");
    print_list("margin", margin, "%.4f");
    std::printf(", \"ended\": %s}\n", ended ? "true" : "false");
    std::fflush(stdout);
}

#ifndef LLAMA_OF_2024
static void embed(llama_model *model, llama_context *ctx, std::vector<llama_token> prompt, const Options &o)
{
    llama_batch b = llama_batch_init((int)prompt.size(), 0, 1);
    for (size_t i = 0; i < prompt.size(); i++) {
        b.token[i] = prompt[i];
        b.pos[i] = (llama_pos)i;
        b.n_seq_id[i] = 1;
        b.seq_id[i][0] = 0;
        b.logits[i] = true;
    }
    b.n_tokens = (int)prompt.size();
    if (llama_get_memory(ctx)) forget(ctx);
    if (llama_decode(ctx, b)) die("llama_decode failed");
    const size_t width = o.pool == "rank" ? llama_model_n_cls_out(model) : (size_t)llama_model_n_embd(model);
    const size_t rows = o.pool == "none" ? prompt.size() : 1;
    std::vector<double> all;
    for (size_t r = 0; r < rows; r++) {
        const float *x = o.pool == "none" ? llama_get_embeddings_ith(ctx, (int)r)
                                          : llama_get_embeddings_seq(ctx, 0);
        all.insert(all.end(), x, x + width);
    }
    std::printf("{");
    print_list("prompt", prompt, "%d");
    std::printf(", ");
    print_list("embedding", all, "%.6g");
    std::printf("}\n");
    std::fflush(stdout);
    llama_batch_free(b);
}
#endif

#ifndef LLAMA_OF_2024
/* FILE or FILE:SCALE */
static void set_adapters(llama_model *model, llama_context *ctx, const Options &o)
{
    std::vector<llama_adapter_lora *> adapters;
    std::vector<float> scales;
    for (const std::string &text : o.lora) {
        const size_t colon = text.rfind(':');
        const std::string path = text.substr(0, colon);
        adapters.push_back(llama_adapter_lora_init(model, path.c_str()));
        scales.push_back(colon == std::string::npos ? 1 : (float)std::atof(text.c_str() + colon + 1));
        if (!adapters.back()) die("cannot load " + path);
    }
    if (!adapters.empty() && llama_set_adapters_lora(ctx, adapters.data(), adapters.size(), scales.data()))
        die("cannot use the adapters");
}
#endif

int main(int argc, char **argv)
{
    const Options o = parse(argc, argv);
    llama_log_set([](ggml_log_level level, const char *text, void *) {
        if (level == GGML_LOG_LEVEL_ERROR) std::fputs(text, stderr);
    }, nullptr);
    llama_backend_init();
    llama_model *model = llama_model_load_from_file(o.model, llama_model_default_params());
    if (!model) die("cannot load " + std::string(o.model));
    llama_context_params cp = llama_context_default_params();
    cp.n_ctx = (uint32_t)o.n_ctx;
    cp.n_batch = cp.n_ctx;
    cp.n_threads = cp.n_threads_batch = o.threads;
    cp.type_k = cp.type_v = o.kv == "f32" ? GGML_TYPE_F32 : GGML_TYPE_F16;
    set_flash(&cp, o.flash);
#ifndef LLAMA_OF_2024
    cp.embeddings = !o.pool.empty();
    cp.n_ubatch = o.pool.empty() ? cp.n_ubatch : cp.n_batch;
    if (!o.pool.empty())
        cp.pooling_type = o.pool == "none" ? LLAMA_POOLING_TYPE_NONE
            : o.pool == "mean" ? LLAMA_POOLING_TYPE_MEAN
            : o.pool == "cls" ? LLAMA_POOLING_TYPE_CLS : o.pool == "last" ? LLAMA_POOLING_TYPE_LAST
            : LLAMA_POOLING_TYPE_RANK;
#endif
    llama_context *ctx = llama_init_from_model(model, cp);
    if (!ctx) die("cannot make a context");
    const llama_vocab *vocab = llama_model_get_vocab(model);
#ifndef LLAMA_OF_2024
    set_adapters(model, ctx, o);
#endif
    for (std::string line; std::getline(std::cin, line);)
#ifndef LLAMA_OF_2024
        if (!line.empty() && !o.pool.empty()) embed(model, ctx, read_prompt(vocab, line), o);
        else
#endif
        if (!line.empty()) run(ctx, vocab, read_prompt(vocab, line), o);
    llama_free(ctx);
    llama_model_free(model);
}
