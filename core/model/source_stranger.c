/* Identifies a file that was passed instead of a model, for the error message.
 * SPDX-License-Identifier: MIT */
#include "model/source_formats.h"
#include "model/source_read.h"

#define STRANGER(at, bytes, what) { at, sizeof(bytes) - 1, bytes, what }
#define UNPACK   "unpack it"
#define OLD_GGML "a GGML file from before GGUF: convert the original weights again"
#define CONVERT  "qsf-convert converts the folder that it is in"
#define PROGRAM  "a program: a llamafile has its GGUF file inside"

/* Bytes at a place, what has them, and what to do. */
static const struct stranger { uint8_t at, len; const char *bytes, *what; } strangers[] = {
    STRANGER(0, "version https://git-lfs",
             "a Git LFS pointer instead of the file: \"git lfs pull\" fetches the file"),
    STRANGER(0, "QSFS", "a saved session, which is used with a model file"),
    STRANGER(0, "FUGG", "a GGUF file of the other byte order: convert it again"),
    STRANGER(0, "lmgg", OLD_GGML),
    STRANGER(0, "fmgg", OLD_GGML),
    STRANGER(0, "tjgg", OLD_GGML),
    STRANGER(0, "algg", OLD_GGML),
    STRANGER(0, "\x80\x02\x8a\x0a", "a PyTorch checkpoint: " CONVERT),
    STRANGER(0, "PK\x03\x04", "a ZIP archive: " UNPACK),
    STRANGER(0, "\x1f\x8b", "compressed by gzip: " UNPACK),
    STRANGER(0, "BZh", "compressed by bzip2: " UNPACK),
    STRANGER(0, "\xfd" "7zXZ", "compressed by xz: " UNPACK),
    STRANGER(0, "\x28\xb5\x2f\xfd", "compressed by zstd: " UNPACK),
    STRANGER(0, "7z\xbc\xaf", "a 7z archive: " UNPACK),
    STRANGER(0, "\x89HDF", "an HDF5 file: save the model as safetensors, then " CONVERT),
    STRANGER(4, "TFL3", "a TensorFlow Lite model: take the original weights"),
    STRANGER(0, "MZ", PROGRAM),
    STRANGER(0, "\x7f" "ELF", PROGRAM),
    STRANGER(0, "\xcf\xfa\xed\xfe", PROGRAM),
};
static const char *const page_words[] = { "<!doctype", "<html", "<?xml" };
static const char a_checkpoint[] = "a PyTorch checkpoint: " CONVERT;
static const char a_safetensors[] = "a safetensors file: " CONVERT;
static const char a_page[] =
    "a web page: use the address that downloads the file (on Hugging Face /resolve/ instead of /blob/)";
#undef STRANGER
#undef UNPACK
#undef OLD_GGML
#undef CONVERT
#undef PROGRAM

enum { STRANGER_BYTES = 256, STRANGER_SHOWN = 60 };

static bool stranger_contains(const uint8_t *b, size_t n, const char *text)
{
    const size_t len = strlen(text);
    for (size_t i = 0; i + len <= n; i++)
        if (!memcmp(b + i, text, len)) return true;
    return false;
}

/* Whether the bytes begin with `word` in any case, after spaces and a byte order mark. */
static bool stranger_begins(const uint8_t *b, size_t n, const char *word)
{
    for (; n && (*b <= ' ' || *b >= 0x80); n--) b++;
    for (; *word; word++, b++, n--)
        if (!n || (*b >= 'A' && *b <= 'Z' ? *b + 32 : *b) != *word) return false;
    return true;
}

/* The beginning of text as one line; empty if the bytes are not text. */
static void stranger_text(const uint8_t *b, size_t n, char out[STRANGER_SHOWN + 1])
{
    size_t len = 0;
    out[0] = 0;
    for (size_t i = 0; i < n; i++)
        if (b[i] == 0x7f || (b[i] < ' ' && (b[i] < '\t' || b[i] > '\r'))) return;
    for (size_t i = 0; i < n && len < STRANGER_SHOWN; i++) {
        if (b[i] > ' ') out[len++] = b[i] < 0x7f ? (char)b[i] : '?';
        else if (len && out[len - 1] != ' ') out[len++] = ' ';
    }
    out[len] = 0;
}

static const char *stranger_known(const uint8_t *b, size_t n, uint64_t length)
{
    if (n > 9 && b[8] == '{' && qsf_le64(b) <= length - 8) return a_safetensors;
    for (size_t i = 0; i < QSF_ARRAY_LEN(page_words); i++)
        if (stranger_begins(b, n, page_words[i])) return a_page;
    for (size_t i = 0; i < QSF_ARRAY_LEN(strangers); i++) {
        const struct stranger *x = &strangers[i];
        if (x->at + (size_t)x->len > n || memcmp(b + x->at, x->bytes, x->len)) continue;
        return b[0] == 'P' && stranger_contains(b, n, "data.pkl") ? a_checkpoint : x->what;
    }
    return NULL;
}

qsf_status qsf_source_stranger(const qsf_source *s, qsf_error *err)
{
    static const char neither[] = "neither a QSF nor a GGUF file";
    uint8_t b[STRANGER_BYTES];
    char text[STRANGER_SHOWN + 1];
    const uint64_t length = s->lengths[0];
    const size_t n = (size_t)QSF_MIN(length, sizeof b);
    if (length == 0) return qsf_fail(err, QSF_E_CORRUPT, "%s: the file is empty; fetch it again", s->path);
    const qsf_status st = qsf_source_read(s, 0, 0, b, n, "the first bytes", err);
    if (st) return st;
    const char *what = stranger_known(b, n, length);
    if (what) return qsf_fail(err, QSF_E_CORRUPT, "%s: %s but %s", s->path, neither, what);
    stranger_text(b, n, text);
    if (text[0])
        return qsf_fail(err, QSF_E_CORRUPT,
                        "%s: %s but %s, perhaps a server's error message instead of the file: \"%s\"",
                        s->path,
                        neither, text[0] == '{' || text[0] == '[' ? "JSON" : "a text file", text);
    if (b[0] == 0 && (n == 1 || !memcmp(b, b + 1, n - 1)))
        return qsf_fail(err, QSF_E_CORRUPT,
                        "%s: %s: it begins with zeros, as a file does whose download stopped; fetch it "
                        "again", s->path, neither);
    return qsf_fail(err, QSF_E_CORRUPT, "%s: %s: it begins with %02x %02x %02x %02x", s->path, neither,
                    (unsigned)b[0], (unsigned)(n > 1 ? b[1] : 0), (unsigned)(n > 2 ? b[2] : 0),
                    (unsigned)(n > 3 ? b[3] : 0));
}
