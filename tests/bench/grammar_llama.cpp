/* llama.cpp's grammars for grammars.py: what schema_accept.c does, with llama.cpp's library.
 * SPDX-License-Identifier: MIT
 *
 *     grammar_llama MODEL.gguf EVERY
 *
 * {"schema": {...}, "texts": ["...", ...]}
 *   -> ok US 0110... US US ...     compiling; a 1 for each text that fits; masks, for each EVERYth
 *                                  token
 *   -> error MESSAGE */
#include "json-schema-to-grammar.h"
#include "json.h"
#include "llama.h"

#include <chrono>
#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

static double now_us()
{
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration<double, std::micro>(now).count();
}

static std::vector<llama_token> encode(const llama_vocab *v, const std::string &text)
{
    std::vector<llama_token> ids(text.size() + 8);
    ids.resize((size_t)llama_tokenize(v, text.data(), (int)text.size(), ids.data(), (int)ids.size(), false,
                                      false));
    return ids;
}

/* Whether the text fits; the masks' times to us. */
static bool walk(const llama_vocab *v, llama_sampler *s, const std::string &text, int every, std::string &us)
{
    const int n_vocab = llama_vocab_n_tokens(v);
    const std::vector<llama_token> ids = encode(v, text);
    std::vector<llama_token_data> all((size_t)n_vocab), one(1);
    for (size_t i = 0; i <= ids.size(); i++) {
        const llama_token id = i < ids.size() ? ids[i] : llama_vocab_eos(v);
        llama_token_data_array a = { one.data(), 1, -1, false };
        one[0] = { id, 0, 0 };
        llama_sampler_apply(s, &a);
        if (one[0].logit != 0) return false;
        if (i == ids.size()) return true;
        if (i % (size_t)every == 0) {
            for (int t = 0; t < n_vocab; t++) all[(size_t)t] = { t, 0, 0 };
            a = { all.data(), all.size(), -1, false };
            const double start = now_us();
            llama_sampler_apply(s, &a);
            us += " " + std::to_string(now_us() - start);
        }
        llama_sampler_accept(s, id);
    }
    return false;
}

int main(int argc, char **argv)
{
    llama_log_set([](ggml_log_level, const char *, void *) {}, nullptr);
    llama_model_params p = llama_model_default_params();
    p.vocab_only = true;
    llama_model *m = argc == 3 ? llama_model_load_from_file(argv[1], p) : nullptr;
    if (!m) return 1;
    const llama_vocab *v = llama_model_get_vocab(m);
    std::string line;
    while (std::getline(std::cin, line)) {
        try {
            const common_json ask = common_json::parse(line);
            const double start = now_us();
            const std::string grammar = json_schema_to_grammar(ask.at("schema"), true);
            llama_sampler *first = llama_sampler_init_grammar(v, grammar.c_str(), "root");
            const double made = now_us() - start;
            if (!first) throw std::runtime_error("its own grammar is refused");
            std::string fits, us;
            for (const auto &text : ask.at("texts")) {
                llama_sampler *s = llama_sampler_clone(first);
                fits += walk(v, s, text.get<std::string>(), std::stoi(argv[2]), us) ? '1' : '0';
                llama_sampler_free(s);
            }
            llama_sampler_free(first);
            std::printf("ok %.0f %s%s\n", made, fits.c_str(), us.c_str());
        } catch (const std::exception &e) {
            std::string why = e.what();
            for (char &c : why) c = c == '\n' ? ' ' : c;
            std::printf("error %s\n", why.c_str());
        }
        std::fflush(stdout);
    }
}
