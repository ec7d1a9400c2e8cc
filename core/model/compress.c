/* Layers to fewer bytes and back.  A codec that the build lacks is an answer, not a crash.
 * SPDX-License-Identifier: MIT */
#include "model/compress.h"
#include "model/source.h"

#if defined(QSF_HAVE_LZ4)
#  include <lz4.h>
#  include <lz4hc.h>
#endif
#if defined(QSF_HAVE_ZSTD)
#  define ZSTD_STATIC_LINKING_ONLY      /* contexts in the caller's memory */
#  include <zstd.h>
#endif

enum {
    PACK_LZ4HC_LEVEL = 12,      /* its best: the file is written once and read for each token */
    PACK_ZSTD_LEVEL  = 6        /* codes hold no long matches: higher levels gain less than 0.1% */
};

const char *qsf_codec_name(uint32_t compression)
{
    static const char *const names[] = { "none", "lz4", "lz4hc", "zstd" };
    return compression < QSF_ARRAY_LEN(names) ? names[compression] : NULL;
}

qsf_status qsf_codec_check(uint32_t compression, const char *path, qsf_error *err)
{
    switch (compression) {
    case QSF_COMPRESS_NONE: return QSF_OK;
#if defined(QSF_HAVE_LZ4)
    case QSF_COMPRESS_LZ4: case QSF_COMPRESS_LZ4HC: return QSF_OK;
#endif
#if defined(QSF_HAVE_ZSTD)
    case QSF_COMPRESS_ZSTD: return QSF_OK;
#endif
    default: break;
    }
    const char *name = qsf_codec_name(compression);
    if (!name)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: compression %u is unknown; a newer version may support "
                                                "it",
                        path, (unsigned)compression);
    return qsf_fail(err, QSF_E_UNSUPPORTED,
                    "%s: %s compression is not part of this build; build with %s, or convert with "
                    "--compress none", path, name, compression == QSF_COMPRESS_ZSTD ? "libzstd" : "liblz4");
}

size_t qsf_pack_state(uint32_t compression)
{
    switch (compression) {
#if defined(QSF_HAVE_LZ4)
    case QSF_COMPRESS_LZ4:   return (size_t)LZ4_sizeofState();
    case QSF_COMPRESS_LZ4HC: return (size_t)LZ4_sizeofStateHC();
#endif
#if defined(QSF_HAVE_ZSTD)
    case QSF_COMPRESS_ZSTD:  return ZSTD_estimateCCtxSize(PACK_ZSTD_LEVEL);
#endif
    default: return 0;
    }
}

size_t qsf_unpack_state(uint32_t compression)
{
#if defined(QSF_HAVE_ZSTD)
    if (compression == QSF_COMPRESS_ZSTD) return ZSTD_estimateDCtxSize();
#endif
    (void)compression;
    return 0;
}

uint64_t qsf_pack_bound(uint32_t compression, uint64_t len)
{
    switch (compression) {
#if defined(QSF_HAVE_LZ4)
    case QSF_COMPRESS_LZ4: case QSF_COMPRESS_LZ4HC:
        return len <= LZ4_MAX_INPUT_SIZE ? (uint64_t)LZ4_compressBound((int)len) : 0;
#endif
#if defined(QSF_HAVE_ZSTD)
    case QSF_COMPRESS_ZSTD: return len <= UINT32_MAX / 2 ? ZSTD_compressBound((size_t)len) : 0;
#endif
    default: (void)len; return 0;
    }
}

uint64_t qsf_unpack_bound(uint32_t compression, uint64_t len)
{
    switch (compression) {
    /* a byte of a length adds at most 255 */
    case QSF_COMPRESS_LZ4: case QSF_COMPRESS_LZ4HC: return len * 255 + 64;
    /* the shortest block has 4 bytes and holds at most 128 KiB */
    case QSF_COMPRESS_ZSTD: return (len / 4 + 1) * (128 << 10);
    default: return len;
    }
}

size_t qsf_pack(uint32_t compression, void *state, const void *src, size_t len, void *dst, size_t cap)
{
    switch (compression) {
#if defined(QSF_HAVE_LZ4)
    case QSF_COMPRESS_LZ4:
        return (size_t)LZ4_compress_fast_extState(state, src, dst, (int)len,
                                                  (int)QSF_MIN(cap, (size_t)INT_MAX), 1);
    case QSF_COMPRESS_LZ4HC:
        return (size_t)LZ4_compress_HC_extStateHC(state, src, dst, (int)len,
                                                  (int)QSF_MIN(cap, (size_t)INT_MAX), PACK_LZ4HC_LEVEL);
#endif
#if defined(QSF_HAVE_ZSTD)
    case QSF_COMPRESS_ZSTD: {
        ZSTD_CCtx *c = ZSTD_initStaticCCtx(state, ZSTD_estimateCCtxSize(PACK_ZSTD_LEVEL));
        const size_t n = c ? ZSTD_compressCCtx(c, dst, cap, src, len, PACK_ZSTD_LEVEL) : 0;
        return ZSTD_isError(n) ? 0 : n;
    }
#endif
    default: (void)state; (void)src; (void)len; (void)dst; (void)cap; return 0;
    }
}

bool qsf_unpack(uint32_t compression, void *state, const void *src, size_t src_len, void *dst, size_t len)
{
    switch (compression) {
#if defined(QSF_HAVE_LZ4)
    case QSF_COMPRESS_LZ4: case QSF_COMPRESS_LZ4HC:
        if (src_len > INT_MAX || len > INT_MAX) return false;
        return LZ4_decompress_safe(src, dst, (int)src_len, (int)len) == (int)len;
#endif
#if defined(QSF_HAVE_ZSTD)
    case QSF_COMPRESS_ZSTD: {
        ZSTD_DCtx *d = ZSTD_initStaticDCtx(state, ZSTD_estimateDCtxSize());
        /* an error is a size no buffer has */
        return d && ZSTD_decompressDCtx(d, dst, len, src, src_len) == len;
    }
#endif
    default: (void)state; (void)src; (void)src_len; (void)dst; (void)len; return false;
    }
}
