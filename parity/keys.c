/* A key file is one line: what it is, and 64 hexadecimal digits.
 * SPDX-License-Identifier: MIT */
#include "keys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if !defined(_WIN32) && !defined(__wasi__)
#  include <sys/stat.h>
#endif

#include "canonical.h"
#include "engine.h"
#include "files.h"
#include "receipt.h"
#include "sign.h"

static const char SECRET[] = "qsf-ed25519-secret ", PUBLIC[] = "qsf-ed25519-public ";

static qsf_status keys_missing(qsf_error *err)
{
    return parity_fail(err, QSF_E_UNSUPPORTED, "this build does not support signatures: it was built without "
                       "libsodium and OpenSSL");
}

static void keys_hex(const uint8_t *bytes, size_t n, char *out)
{
    for (size_t i = 0; i < n; i++) snprintf(out + 2 * i, 3, "%02x", bytes[i]);
}

static bool keys_bytes(const char *hex, size_t n, uint8_t *out)
{
    for (size_t i = 0; i < 2 * n; i++) {
        const char *digit = hex[i] ? strchr("0123456789abcdef", hex[i]) : NULL;
        if (!digit) return false;
        const int v = (int)(digit - "0123456789abcdef");
        out[i / 2] = (uint8_t)(i % 2 ? out[i / 2] | v : v << 4);
    }
    return true;
}

static qsf_status keys_write(const char *path, const char *what, const uint8_t key[SIGN_KEY], qsf_error *err)
{
    file_out f;
    char line[128];
    const size_t n = strlen(what);
    memcpy(line, what, n);
    keys_hex(key, SIGN_KEY, line + n);
    line[n + 2 * SIGN_KEY] = '\n';
    const qsf_status st = file_out_begin(&f, path, err);
    return st ? st : file_out_end(&f, file_out_write(&f, line, n + 2 * SIGN_KEY + 1, err), err);
}

static qsf_status keys_read(const char *path, const char *what, uint8_t key[SIGN_KEY], qsf_error *err)
{
    char *text;
    size_t len;
    const size_t n = strlen(what);
    const qsf_status st = file_whole(path, 4096, &text, &len, err);
    if (st) return st;
    const bool ok = len >= n + 2 * SIGN_KEY && !strncmp(text, what, n) && keys_bytes(text + n, SIGN_KEY, key)
                    && !text[n + 2 * SIGN_KEY + strspn(text + n + 2 * SIGN_KEY, "\r\n")];
    memset(text, 0, len);
    free(text);
    return ok ? QSF_OK : parity_fail(err, QSF_E_CORRUPT, "%s: not a key file: expected \"%s\" and 64 "
                                     "hexadecimal digits",
                                     path, what);
}

static qsf_status keys_write_pair(const char *path, const char *beside, const uint8_t secret[SIGN_KEY],
                                  const uint8_t key[SIGN_KEY], qsf_error *err)
{
#if !defined(_WIN32) && !defined(__wasi__)
    const mode_t before = umask(0077);              /* not readable by others */
    qsf_status st = keys_write(path, SECRET, secret, err);
    umask(before);
#else
    qsf_status st = keys_write(path, SECRET, secret, err);
#endif
    return st ? st : keys_write(beside, PUBLIC, key, err);
}

qsf_status keys_new(const char *path, qsf_error *err)
{
    uint8_t secret[SIGN_KEY], key[SIGN_KEY];
    char beside[1024];
    if (!sign_library()) return keys_missing(err);
    const int n = snprintf(beside, sizeof beside, "%s.pub", path);
    if (n < 0 || (size_t)n >= sizeof beside) return parity_fail(err, QSF_E_ARGUMENT,
                                                                "the file's name is too long");
    FILE *there = fopen(path, "rb");
    if (there) {
        fclose(there);
        return parity_fail(err, QSF_E_ARGUMENT, "%s already exists, and keys are not overwritten", path);
    }
    if (!sign_new(secret) || !sign_public(secret, key))
        return parity_fail(err, QSF_E_IO, "%s failed to make a key", sign_library());
    const qsf_status st = keys_write_pair(path, beside, secret, key, err);
    memset(secret, 0, sizeof secret);
    return st;
}

/* The text with the member "signature" at its end. */
static qsf_status keys_add(const char *text, size_t len, const char *key, const char *value, char **out,
                           size_t *n,
                           qsf_error *err)
{
    yyjson_doc *doc = yyjson_read(text, len, YYJSON_READ_NUMBER_AS_RAW);
    yyjson_mut_doc *d = doc ? yyjson_doc_mut_copy(doc, NULL) : NULL;
    *out = NULL;
    if (d) {
        yyjson_mut_val *o = yyjson_mut_obj(d);
        yyjson_mut_obj_add_str(d, o, "algorithm", "ed25519");
        yyjson_mut_obj_add_str(d, o, "public_key", key);
        yyjson_mut_obj_add_str(d, o, "value", value);
        yyjson_mut_obj_remove_key(yyjson_mut_doc_get_root(d), "signature");
        yyjson_mut_obj_add_val(d, yyjson_mut_doc_get_root(d), "signature", o);
        *out = yyjson_mut_write(d, YYJSON_WRITE_PRETTY_TWO_SPACES | YYJSON_WRITE_NEWLINE_AT_END, n);
    }
    yyjson_mut_doc_free(d);
    yyjson_doc_free(doc);
    return *out ? QSF_OK : parity_fail(err, QSF_E_MEMORY, "out of memory");
}

qsf_status keys_sign(const char *path, const char *text, size_t len, char **out, size_t *n, qsf_error *err)
{
    uint8_t secret[SIGN_KEY], key[SIGN_KEY], signature[SIGN_BYTES];
    char hex_key[2 * SIGN_KEY + 1], hex[2 * SIGN_BYTES + 1], *plain;
    size_t plain_n;
    if (!sign_library()) return keys_missing(err);
    qsf_status st = keys_read(path, SECRET, secret, err);
    if (!st) st = canonical_text(text, len, &plain, &plain_n, err);
    if (st) return st;
    const bool ok = sign_public(secret, key) && sign_make(secret, plain, plain_n, signature);
    memset(secret, 0, sizeof secret);
    free(plain);
    if (!ok) return parity_fail(err, QSF_E_IO, "%s failed to make a signature", sign_library());
    keys_hex(key, sizeof key, hex_key);
    keys_hex(signature, sizeof signature, hex);
    return keys_add(text, len, hex_key, hex, out, n, err);
}

qsf_status keys_check(const char *path, const char *text, size_t len, yyjson_val *root, bool *is_signed,
                      qsf_error *err)
{
    uint8_t wanted[SIGN_KEY], key[SIGN_KEY], signature[SIGN_BYTES];
    yyjson_val *s = yyjson_obj_get(root, "signature");
    char *plain;
    size_t n;
    qsf_status st = path ? keys_read(path, PUBLIC, wanted, err) : QSF_OK;
    *is_signed = s != NULL;
    if (st) return st;
    if (!s) return path ? parity_fail(err, QSF_E_CORRUPT, "the receipt is not signed") : QSF_OK;
    if (!sign_library()) return keys_missing(err);
    if (!keys_bytes(yyjson_get_str(yyjson_obj_get(s, "public_key")), sizeof key, key)
        || !keys_bytes(yyjson_get_str(yyjson_obj_get(s, "value")), sizeof signature, signature))
        return parity_fail(err, QSF_E_CORRUPT, "the receipt's signature is not a hexadecimal number");
    if (path && memcmp(key, wanted, sizeof key))
        return parity_fail(err, QSF_E_CORRUPT, "the receipt is signed with a different key");
    if ((st = canonical_text(text, len, &plain, &n, err))) return st;
    const bool right = sign_right(key, plain, n, signature);
    free(plain);
    return right ? QSF_OK : parity_fail(err, QSF_E_CORRUPT,
                                        "the receipt's signature is wrong: the receipt was changed");
}
