/* Fuzz target: any bytes as text for every family of tokenizers; the first byte chooses the family.
 * What the tokens stand for is the text again, with U+FFFD for bytes that are none.
 * SPDX-License-Identifier: MIT */
#include "mem_platform.h"
#include "small_vocab.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const families[] = { "gpt-2", "llama-bpe", "dbrx", "qwen2", "laguna", "minicpm5", "qwen35",
                                        "ufakzeka", "seed-coder", "smollm", "falcon", "default",
                                        "deepseek-llm", "deepseek-coder", "deepseek-v3", "bloom", "viking",
                                        "gpt-4o", "tekken", NULL, "kimi-k2", "youtu", "jais-2",
                                        "tiny_aya", "exaone-moe", "spark2_5", "afmoe", "superbpe",
                                        "chameleon", "gemma4" };
enum { FAMILIES = QSF_ARRAY_LEN(families), KINDS = QSF_VOCAB_KINDS - QSF_VOCAB_WPM };

/* Unigram's normaliser is foreign, too: the text itself. */
static void foreign_charsmap(qsf_vocab *v, char *text, size_t len)
{
    if (v->kind != QSF_VOCAB_UGM || len < 4 || qsf_le32((uint8_t *)text) > len - 4) return;
    v->charsmap = (uint8_t *)text;
    v->charsmap_len = (uint32_t)len;
}

/* Uses the first half of the text as untrusted steps; returns its length. */
static size_t foreign_steps(qsf_vocab *v, char *text, size_t len)
{
    if (v->kind != QSF_VOCAB_STEPS) return 0;
    v->steps = (uint8_t *)text;
    v->steps_len = (uint32_t)(len / 2);
    return len / 2;
}

/* The text as it must come back; 3 * len bytes suffice. */
static size_t expected_text(const char *text, size_t len, char *out)
{
    size_t n = 0;
    for (size_t at = 0, used; at < len; at += used)
        n += qsf_utf8_encode(qsf_utf8_decode(text + at, len - at, &used), out + n);
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static small_vocab vocab;
    if (size < 2) return 0;
    const unsigned choice = data[0] % (FAMILIES + KINDS);
    const char *family = choice < FAMILIES ? families[choice] : NULL;
    const int flags = data[1] & 7;
    char *all = malloc(size - 1), *text = all;
    size_t len = size - 2, n, m = 0, at = 0;
    memcpy(text, data + 2, len);
    char *want = malloc(3 * len + 4);
    const size_t want_len = expected_text(text, len, want);
    if (family) small_bpe(&vocab, family);
    else if (choice < FAMILIES) small_spm(&vocab);
    else small_words(&vocab, (uint8_t)(QSF_VOCAB_WPM + choice - FAMILIES));
    foreign_charsmap(&vocab.v, text, len);
    const size_t skip = foreign_steps(&vocab.v, text, len);
    text += skip;
    len -= skip;

    mem_host h;
    qsf_tokenizer *t;
    qsf_error err;
    mem_host_init(&h);
    const qsf_status made = qsf_tokenizer_new(&h.p, &vocab.v, &t, &err);
    if (made && vocab.v.kind != QSF_VOCAB_STEPS) abort();
    size_t cap = (vocab.v.charsmap ? 300 : 4) * len + 8;
    /* steps may make the input longer, or exceed their time budget */
    const bool stays = !made && vocab.v.kind == QSF_VOCAB_STEPS
        && qsf_tokenizer_encode(t, text, len, flags, NULL, 0, &cap, &err) == QSF_E_UNSUPPORTED;
    if (made || stays) {
        if (!made) qsf_tokenizer_free(t);
        if (h.live) abort();
        mem_host_done(&h);
        free(want);
        free(all);
        return 0;
    }
    int32_t *ids = malloc((cap + 8) * sizeof *ids);
    if (qsf_tokenizer_encode(t, text, len, flags, ids, cap, &n, &err)) abort();
    if (qsf_tokenizer_encode(t, text, len, flags, NULL, 0, &m, &err) != (n ? QSF_E_ARGUMENT : QSF_OK)
        || m != n)
        abort();
    for (size_t i = 0; i < n; i++) {
        const char *piece;
        if (ids[i] < 0 || (uint32_t)ids[i] >= vocab.v.n_tokens) abort();
        const size_t got = qsf_tokenizer_piece(t, ids[i], true, &piece);
        if (!family || flags || !strcmp(family, "gemma4")) continue;
        if (at + got > want_len || memcmp(piece, want + at, got)) abort();
        at += got;
    }
    if (family && !flags && strcmp(family, "gemma4") && at != want_len) abort();
    qsf_tokenizer_free(t);
    if (h.live) abort();
    mem_host_done(&h);
    free(ids);
    free(want);
    free(all);
    return 0;
}
