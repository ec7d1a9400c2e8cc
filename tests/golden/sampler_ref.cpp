// What llama.cpp's samplers leave of some logits: the candidates and their probabilities, as a C
// header.
// SPDX-License-Identifier: MIT
//
//     sampler_ref > sampler_golden.h
//
// The chains stand in the order of docs/sampling.md.  Linked like llama_ref: README.md beside this
// file.
#include "llama.h"

#include <cmath>
#include <cstdio>
#include <vector>

// llama.cpp has it for its own tests: breakers are sequences of tokens.
llama_sampler *llama_sampler_init_dry_testing(float multiplier, float base, int32_t allowed, int32_t last_n,
                                              const std::vector<std::vector<llama_token>> &breakers);

enum { N = 200, STEPS = 4 };

struct Case {
    float temperature;
    int top_k;
    float top_p, min_p, sigma, typical, xtc_threshold, range, exponent;
    int mirostat;
    float tau, repeat, frequency, presence, dry;
    int dry_allowed;
    float bias;
};

static const Case cases[] = {
#include "sampler_cases.h"
};

static float logit(int i, unsigned seed)
{
    unsigned r = seed * 2654435761u + (unsigned)i * 40503u;
    for (int k = 0; k < 3; k++) r = (r ^ r >> 15) * 2246822519u + 1013904223u;
    const float u = (float)(r >> 8) * (1.0f / 8388608.0f) - 1;
    return u * u * u * 8;
}

static std::vector<llama_sampler *> chain_of(const Case &c)
{
    const llama_logit_bias bias = { 7, c.bias };
    std::vector<llama_sampler *> chain;
    if (c.bias != 0) chain.push_back(llama_sampler_init_logit_bias(N, 1, &bias));
    chain.push_back(llama_sampler_init_penalties(N, 64, c.repeat, c.frequency, c.presence));
    if (c.dry > 0) chain.push_back(llama_sampler_init_dry_testing(c.dry, 1.75f, c.dry_allowed, 64, {}));
    chain.push_back(llama_sampler_init_top_n_sigma(c.sigma));
    if (!(c.range > 0)) chain.push_back(llama_sampler_init_temp(c.temperature));
    if (c.mirostat == 1) chain.push_back(llama_sampler_init_mirostat(N, 1, c.tau, 0.1f, 100));
    else if (c.mirostat == 2) chain.push_back(llama_sampler_init_mirostat_v2(1, c.tau, 0.1f));
    else {
        if (c.top_k) chain.push_back(llama_sampler_init_top_k(c.top_k));
        chain.push_back(llama_sampler_init_min_p(c.min_p, 0));
        chain.push_back(llama_sampler_init_typical(c.typical, 0));
        chain.push_back(llama_sampler_init_top_p(c.top_p, 0));
        if (c.xtc_threshold < 1) chain.push_back(llama_sampler_init_xtc(1, c.xtc_threshold, 0, 1));
        if (c.range > 0) chain.push_back(llama_sampler_init_temp_ext(c.temperature, c.range, c.exponent));
        chain.push_back(llama_sampler_init_dist(1));
    }
    return chain;
}

// What Mirostat leaves in steps, each with the surprise of the one before it.
static void mirostat_steps(const Case &c, unsigned seed)
{
    std::vector<llama_sampler *> chain = chain_of(c);
    std::printf("    {");
    for (unsigned step = 0; step < STEPS; step++) {
        std::vector<llama_token_data> data(N);
        for (int i = 0; i < N; i++) data[i] = { i, logit(i, seed + 100 * step), 0 };
        llama_token_data_array cur = { data.data(), data.size(), -1, false };
        for (llama_sampler *s : chain) llama_sampler_apply(s, &cur);
        double sum = 0, best = 0;
        for (size_t i = 0; i < cur.size; i++) {
            sum += cur.data[i].p;
            best = cur.data[i].p > best ? cur.data[i].p : best;
        }
        std::printf(" { %d, %d, %.6ff },", cur.data[cur.selected].id, (int)cur.size, best / sum);
    }
    for (llama_sampler *s : chain) llama_sampler_free(s);
    std::printf(" },\n");
}

int main()
{
    std::printf("/* What llama.cpp's samplers leave; tests/golden/sampler_ref.cpp writes it. */\n"
                "static const struct { int n; struct { int id; float p; } best[24]; } "
                "sampler_golden[] = {\n");
    unsigned seed = 1;
    for (const Case &c : cases) {
        std::vector<llama_token_data> data(N);
        for (int i = 0; i < N; i++) data[i] = { i, logit(i, seed), 0 };
        llama_token_data_array cur = { data.data(), data.size(), -1, false };
        std::vector<llama_sampler *> chain = chain_of(c);
        for (llama_sampler *s : chain) {
            for (int i = 0; i < 40; i++) llama_sampler_accept(s, (int)((seed + i % 9 * (i % 7 ? 1 : 2)) % N));
            llama_sampler_apply(s, &cur);
        }
        double sum = 0;
        int left = 0;
        std::vector<llama_token_data> all(cur.data, cur.data + cur.size);
        for (auto &d : all) sum += d.p;
        for (auto &d : all) left += d.p > 0;
        // by probability, then by id
        for (size_t i = 0; i < all.size(); i++)
            for (size_t j = i + 1; j < all.size(); j++)
                if (all[j].p > all[i].p || (all[j].p == all[i].p && all[j].id < all[i].id))
                    std::swap(all[i], all[j]);
        std::printf("    { %d, {", left);
        for (int i = 0; i < left && i < 24; i++)
            std::printf("%s { %d, %.6ff },", i % 4 ? "" : "\n       ", all[i].id, all[i].p / sum);
        std::printf(" } },\n");
        for (llama_sampler *s : chain) llama_sampler_free(s);
        seed++;
    }
    std::printf("};\n\n"
                "/* Mirostat's steps: the token that came, how many were left, the best one's share. */\n"
                "static const struct { int id, n; float p; } sampler_mirostat[][%d] = {\n", STEPS);
    seed = 1;
    for (const Case &c : cases) {
        if (c.mirostat) mirostat_steps(c, seed);
        seed++;
    }
    std::printf("};\n");
}
