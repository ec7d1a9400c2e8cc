/* How kernel templates are compiled.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_TEMPLATE_H
#define QSF_TEMPLATE_H

/* Kernel templates are inlined whole: their form, count and flags are constants there; QSF_UNROLL
 * before a loop whose count is one of them puts all of it in line, so that its arrays are
 * registers.  Not under the sanitizers, which check every access: the compiler would need minutes
 * and a gigabyte.  Not every set has a use for each. */
#if defined(__has_feature)
#  if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) \
    || __has_feature(undefined_behavior_sanitizer)
#    define QSF_SANITIZED 1
#  endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#  define QSF_SANITIZED 1
#endif
#if defined(QSF_SANITIZED) || !defined(__GNUC__)
#  define QSF_TEMPLATE static inline
#  define QSF_UNROLL
#  define QSF_LOOP
#elif defined(__clang__)
#  define QSF_TEMPLATE static inline __attribute__((always_inline, unused))
#  define QSF_UNROLL _Pragma("clang loop unroll(full)")
#  define QSF_LOOP _Pragma("clang loop unroll(disable)")
#else
#  define QSF_TEMPLATE static inline __attribute__((always_inline, unused))
#  define QSF_UNROLL _Pragma("GCC unroll 16")
#  define QSF_LOOP _Pragma("GCC unroll 1")
#endif
#if defined(__GNUC__)
#  define QSF_NOINLINE __attribute__((noinline))
#else
#  define QSF_NOINLINE
#endif

#endif
