/* SPDX-License-Identifier: Apache-2.0 */
/* What loops over floats share, so that compilers vectorise them alike everywhere.
 *
 * VECTOR_LOOP stands before a `for` over elements whose only possible overlap is out == in: without
 * it the compilers test the arrays for overlap at run time and take the scalar loop for in-place
 * use.
 *
 * VECTOR_CLONES builds a function once for each vector width and picks at load time by CPU. All of
 * them give the same bits: the build forbids fused multiply-adds and reordering, and division and
 * square root are correctly rounded at every width. Sanitizers cannot run in such resolvers, and
 * clang before 18 gives the clones of an external function a name that its callers do not know. */
#ifndef GRADUS_BASE_VECTOR_H
#define GRADUS_BASE_VECTOR_H

#if defined(__clang__)
#define VECTOR_LOOP _Pragma("clang loop vectorize(assume_safety)")
#else
#define VECTOR_LOOP _Pragma("GCC ivdep")
#endif

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define VECTOR_SANITIZED 1
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define VECTOR_SANITIZED 1
#endif

#if defined(__x86_64__) && defined(__has_attribute) && !defined(VECTOR_SANITIZED)
#if __has_attribute(target_clones) && (!defined(__clang__) || __clang_major__ >= 18)
#define VECTOR_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#endif
#endif
#ifndef VECTOR_CLONES
#define VECTOR_CLONES
#endif

/* Keeps a compiler from making a call of memcpy() of a loop that copies. */
#if defined(__clang__)
#define VECTOR_NOT_MEMCPY __attribute__((no_builtin("memcpy", "memmove")))
#else
#define VECTOR_NOT_MEMCPY __attribute__((optimize("no-tree-loop-distribute-patterns")))
#endif

/* For small functions that the loops call: they must become part of each clone. */
#define VECTOR_INLINE static inline __attribute__((always_inline))

#endif
