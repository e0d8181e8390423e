/* What the loops of the update rules share. Only rule_<name>.c files include this.
 *
 * RULE_LOOP stands before a `for` over elements whose only possible overlap is out == in: without
 * it the compilers test the arrays for overlap at run time and take the scalar loop for an update
 * in place.
 *
 * RULE_CLONES builds a function once for each vector width and picks at load time by CPU. All of
 * them give the same bits: the build forbids fused multiply-adds and reordering, and division and
 * square root are correctly rounded at every width. Sanitizers cannot run in such resolvers. */
#ifndef GRADUS_RULE_RULE_LOOP_H
#define GRADUS_RULE_RULE_LOOP_H

#if defined(__clang__)
#define RULE_LOOP _Pragma("clang loop vectorize(assume_safety)")
#else
#define RULE_LOOP _Pragma("GCC ivdep")
#endif

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define RULE_SANITIZED 1
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define RULE_SANITIZED 1
#endif

#if defined(__x86_64__) && defined(__has_attribute) && !defined(RULE_SANITIZED)
#if __has_attribute(target_clones)
#define RULE_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#endif
#endif
#ifndef RULE_CLONES
#define RULE_CLONES
#endif

#endif
