/* Parts of qsf-parity: sums, signatures, the arithmetic of a comparison, canonical JSON.
 * SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "canonical.h"
#include "compare.h"
#include "prompts.h"
#include "sign.h"
#include "test.h"

static void sum_of(const char *text, size_t times, char out[SHA256_HEX])
{
    sha256 s;
    sha256_begin(&s);
    for (size_t i = 0; i < times; i++) sha256_add(&s, text, strlen(text));
    sha256_end_hex(&s, out);
}

TEST(sha256_has_the_sums_of_fips_180)
{
    char sum[SHA256_HEX];
    sum_of("abc", 1, sum);
    CHECK_STR(sum, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    sum_of("", 1, sum);
    CHECK_STR(sum, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    sum_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1, sum);
    CHECK_STR(sum, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    sum_of("aaaaaaaaaa", 100000, sum);
    CHECK_STR(sum, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

/* The second test of RFC 8032, section 7.1. */
TEST(ed25519_signs_as_rfc_8032)
{
    static const uint8_t secret[SIGN_KEY] = {
        0x4c, 0xcd, 0x08, 0x9b, 0x28, 0xff, 0x96, 0xda, 0x9d, 0xb6, 0xc3, 0x46, 0xec, 0x11, 0x4e, 0x0f,
        0x5b, 0x8a, 0x31, 0x9f, 0x35, 0xab, 0xa6, 0x24, 0xda, 0x8c, 0xf6, 0xed, 0x4f, 0xb8, 0xa6, 0xfb };
    static const uint8_t wanted[SIGN_KEY] = {
        0x3d, 0x40, 0x17, 0xc3, 0xe8, 0x43, 0x89, 0x5a, 0x92, 0xb7, 0x0a, 0xa7, 0x4d, 0x1b, 0x7e, 0xbc,
        0x9c, 0x98, 0x2c, 0xcf, 0x2e, 0xc4, 0x96, 0x8c, 0xc0, 0xcd, 0x55, 0xf1, 0x2a, 0xf4, 0x66, 0x0c };
    static const uint8_t begins[4] = { 0x92, 0xa0, 0x09, 0xa9 };
    uint8_t key[SIGN_KEY], signature[SIGN_BYTES], message = 0x72;
    if (!sign_library()) return;
    CHECK(sign_public(secret, key) && !memcmp(key, wanted, sizeof key));
    CHECK(sign_make(secret, &message, 1, signature) && !memcmp(signature, begins, sizeof begins));
    CHECK(sign_right(key, &message, 1, signature));
    message ^= 1;
    CHECK(!sign_right(key, &message, 1, signature));
    message ^= 1, signature[40] ^= 1;
    CHECK(!sign_right(key, &message, 1, signature));
}

TEST(rows_are_compared_as_the_formulas_say)
{
    const float ours[4] = { 1, 2, 3, 4 }, other[4] = { 1, 2, 4, 3 };
    parity_row r;
    int which;
    size_t at;
    CHECK(parity_row_of(ours, other, 4, &r, &which, &at));
    CHECK(fabs(r.cosine - 29.0 / 30) < 1e-12 && r.max_difference == 1 && r.mean_difference == 0.5);
    CHECK(r.top[0][0].id == 3 && r.top[1][0].id == 2 && r.top[0][3].id == 0 && r.top[0][4].id == -1);
    /* the two distributions swap two probabilities: KL = (p - q) * 1 */
    const double sum = exp(1) + exp(2) + exp(3) + exp(4);
    CHECK(fabs(r.kl - (exp(4) - exp(3)) / sum) < 1e-12);
    CHECK(fabs(r.noise - sqrt(0.5)) < 1e-12);
    CHECK(parity_row_of(ours, ours, 4, &r, &which, &at) && fabs(r.cosine - 1) < 1e-15 && r.kl < 1e-15);
}

TEST(logits_that_are_no_numbers_are_named)
{
    const float good[3] = { 1, 2, 3 }, bad[3] = { 1, NAN, 3 }, endless[3] = { 1, 2, -INFINITY };
    parity_row r;
    int which = -1;
    size_t at = 0;
    CHECK(!parity_row_of(bad, good, 3, &r, &which, &at) && which == 0 && at == 1);
    CHECK(!parity_row_of(good, endless, 3, &r, &which, &at) && which == 1 && at == 2);
}

TEST(ties_are_within_the_error_and_others_are_not)
{
    parity_row r = { .noise = 0.1, .top = { { { 1, 5 } }, { { 2, 5 } } } };
    const float ours[3] = { 0, 5, 4.9f }, other[3] = { 0, 4.8f, 5 }, far[3] = { 0, 4, 5 };
    parity_totals t;
    parity_totals_begin(&t);
    parity_totals_step(&t, &r, ours, other, 0, 7);
    CHECK(t.first.there && t.first.tie && t.first.step == 7 && t.ties == 1 && t.matches == 0);
    parity_totals_step(&t, &r, ours, far, 1, 8);
    CHECK(t.ties == 1 && t.first.step == 7 && t.steps == 2);
    CHECK(parity_match_rate(&t) == 0);
}

static void canonical_is(const char *text, const char *wanted)
{
    qsf_error err;
    char *out = NULL;
    size_t n;
    const qsf_status st = canonical_text(text, strlen(text), &out, &n, &err);
    CHECK_EQ(st, wanted ? QSF_OK : QSF_E_CORRUPT);
    if (!st && wanted) CHECK(n == strlen(wanted) && !memcmp(out, wanted, n));
    free(out);
}

TEST(canonical_json_has_one_form)
{
    canonical_is(" { \"b\" : [ 1.50 , 1e3, true ], \"a\": null }", "{\"a\":null,\"b\":[1.50,1e3,true]}");
    canonical_is("{\"signature\": 1, \"x\": {\"signature\": \"\\u00e9\\n\\/\"}}",
                 "{\"x\":{\"signature\":\"\xc3\xa9\\u000a/\"}}");
    canonical_is("{\"a\": 1, \"a\": 2}", NULL);
    canonical_is("[1]", NULL);
    canonical_is("{\"a\": }", NULL);
}

static void ids_are(const char *text, size_t n)
{
    prompt_list l = { 0 };
    qsf_error err = { .status = QSF_OK };
    const qsf_status st = prompts_ids(&l, text, "--ids", &err);
    CHECK_EQ(st, n ? QSF_OK : QSF_E_ARGUMENT);
    if (!st) CHECK_EQ((long long)l.items[0].n, (long long)n);
    prompts_free(&l);
}

TEST(lists_of_ids_are_numbers_with_commas)
{
    ids_are("1,2,3", 3), ids_are("[ 1, 22 ]", 2), ids_are("7", 1), ids_are("1 2", 2);
    ids_are("", 0), ids_are("1,", 0), ids_are("1,,2", 0), ids_are("-1", 0), ids_are("x", 0);
    ids_are("99999999999", 0), ids_are("1;2", 0);
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(sha256_has_the_sums_of_fips_180);
    RUN(ed25519_signs_as_rfc_8032);
    RUN(rows_are_compared_as_the_formulas_say);
    RUN(logits_that_are_no_numbers_are_named);
    RUN(ties_are_within_the_error_and_others_are_not);
    RUN(canonical_json_has_one_form);
    RUN(lists_of_ids_are_numbers_with_commas);
    return test_end();
}
