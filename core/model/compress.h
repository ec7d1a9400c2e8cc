/* Compression of layers: LZ4 and ZSTD, if the build has them.
 * SPDX-License-Identifier: MIT
 *
 * QSF_HAVE_LZ4 and QSF_HAVE_ZSTD say what the build links.  Neither library allocates here: their
 * memory is the caller's `state`. */
#ifndef QSF_COMPRESS_H
#define QSF_COMPRESS_H

#include "base/host.h"

/* "lz4"; NULL: no such number. */
const char *qsf_codec_name(uint32_t compression);
/* QSF_E_UNSUPPORTED names the number or the library that this build lacks.
 * path is for the message. */
qsf_status qsf_codec_check(uint32_t compression, const char *path, qsf_error *err);

/* Bytes of state for packing and unpacking, 8-byte aligned; 0: needs none. */
size_t   qsf_pack_state(uint32_t compression);
size_t   qsf_unpack_state(uint32_t compression);
/* Most bytes that len bytes can become; 0: they are too many for the codec. */
uint64_t qsf_pack_bound(uint32_t compression, uint64_t len);
/* Most bytes that len bytes can have been: a larger claim is a lie,
 * found before memory is asked for. */
uint64_t qsf_unpack_bound(uint32_t compression, uint64_t len);

/* Returns the packed bytes' length; 0: failed.  cap is at least qsf_pack_bound. */
size_t qsf_pack(uint32_t compression, void *state, const void *src, size_t len, void *dst, size_t cap);
/* Whether src unpacks to exactly len bytes. */
bool   qsf_unpack(uint32_t compression, void *state, const void *src, size_t src_len, void *dst, size_t len);

#endif
