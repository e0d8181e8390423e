/* SPDX-License-Identifier: Apache-2.0 */
/* Allocation with checked sizes, for all programs; large arrays ask the kernel for huge pages.
 * Also copies of large arrays, in loops of our own, because the speed of glibc's memcpy()
 * depends on where the arrays lie. */
#include "base/mem.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#include "base/vector.h"

#define HUGE_BYTES_MIN ((size_t)4 << 20)
#define COPY_BYTES_MIN 2048
#define LINE_BYTES 64

static void out_of_memory(size_t count, size_t size)
{
    (void)fprintf(stderr, "level=error event=out_of_memory count=%zu size=%zu\n", count, size);
    abort();
}

bool mem_mul(size_t a, size_t b, size_t *product)
{
    return !__builtin_mul_overflow(a, b, product);
}

void *mem_new(size_t count, size_t size)
{
    void *p = calloc(count == 0 ? 1 : count, size == 0 ? 1 : size);
    if (p == NULL) {
        out_of_memory(count, size);
    }
    return p;
}

void *mem_resize(void *p, size_t count, size_t size)
{
    size_t bytes;
    if (!mem_mul(count, size, &bytes)) {
        out_of_memory(count, size);
    }
    void *q = realloc(p, bytes == 0 ? 1 : bytes);
    if (q == NULL) {
        out_of_memory(count, size);
    }
    return q;
}

char *mem_strdup(const char *s)
{
    if (s == NULL) {
        return NULL;
    }
    size_t n = strlen(s) + 1;
    char *copy = mem_new(n, 1);
    memcpy(copy, s, n);
    return copy;
}

char **mem_copy_texts(const char *const *texts, size_t count)
{
    char **copies = mem_new(count, sizeof *copies);
    for (size_t i = 0; i < count; i++) {
        copies[i] = mem_strdup(texts[i]);
    }
    return copies;
}

void mem_free_texts(char **texts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(texts[i]);
    }
    free(texts);
}

char *mem_printf(const char *fmt, ...)
{
    char *s = NULL;
    va_list args;
    va_start(args, fmt);
    int n = vasprintf(&s, fmt, args);
    va_end(args);
    if (n < 0) {
        out_of_memory(1, 0);
    }
    return s;
}

/* Large arrays are walked from end to end: with pages of 2 MiB the walk misses fewer translations.
 * A system without them refuses the advice, and then pages stay small. */
static void ask_huge_pages(void *p, size_t bytes)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t first = ((uintptr_t)p + page - 1) / page * page;
    if (bytes >= HUGE_BYTES_MIN) {
        (void)madvise((char *)p + (first - (uintptr_t)p), bytes - (first - (uintptr_t)p),
                      MADV_HUGEPAGE);
    }
}

void *mem_try_aligned(size_t count, size_t size, const char *what, struct err *err)
{
    size_t bytes;
    if (!mem_mul(count, size, &bytes) || bytes > SIZE_MAX - MEM_ALIGN) {
        err_set(err, ERR_EXHAUSTED, "%s: %zu × %zu bytes do not fit in memory", what, count, size);
        return NULL;
    }
    bytes = (bytes + MEM_ALIGN) / MEM_ALIGN * MEM_ALIGN;
    void *p = aligned_alloc(MEM_ALIGN, bytes);
    if (p == NULL) {
        err_set(err, ERR_EXHAUSTED, "%s: no memory for %zu bytes", what, bytes);
        return NULL;
    }
    ask_huge_pages(p, bytes);
    memset(p, 0, bytes);
    return p;
}

void *mem_try_pages(size_t bytes, const char *what, struct err *err)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) {
        err_set(err, ERR_EXHAUSTED, "%s: no memory for %zu bytes", what, bytes);
        return NULL;
    }
    ask_huge_pages(p, bytes);
    memset(p, 0, bytes); /* touches the pages now, before a thread waits for them */
    return p;
}

void mem_free_pages(void *p, size_t bytes)
{
    (void)munmap(p, bytes);
}

void *mem_grow(void *array, size_t *capacity, size_t need, size_t size)
{
    if (need <= *capacity) {
        return array;
    }
    size_t n = *capacity < 8 ? 8 : *capacity;
    while (n < need) {
        if (n > SIZE_MAX / 2) {
            out_of_memory(need, size);
        }
        n *= 2;
    }
    array = mem_resize(array, n, size);
    *capacity = n;
    return array;
}

#ifndef VECTOR_SANITIZED
/* Copies without the C library: glibc copies large arrays with one string instruction, whose speed
 * depends on the lines and on the low bits of both addresses (its bug 30994). These are plain
 * vector loads and stores. */
VECTOR_CLONES VECTOR_NOT_MEMCPY static void copy(char *restrict to, const char *restrict from,
                                                 size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        to[i] = from[i];
    }
}
#endif

void mem_copy(void *restrict to, const void *restrict from, size_t bytes)
{
#ifdef VECTOR_SANITIZED
    memcpy(to, from, bytes); /* a sanitizer looks at memcpy once, and at a loop for each byte */
#else
    if (bytes < COPY_BYTES_MIN) {
        memcpy(to, from, bytes);
    } else {
        copy(to, from, bytes);
    }
#endif
}

#if defined(__x86_64__)
/* Stores that do not read the line first, and leave the cache to others. */
void mem_copy_far(void *restrict to, const void *restrict from, size_t bytes)
{
    char *t = to;
    const char *f = from;
    size_t head = (size_t)(-(uintptr_t)t % LINE_BYTES);
    if (bytes < COPY_BYTES_MIN + head) {
        memcpy(to, from, bytes);
        return;
    }
    memcpy(t, f, head);
    size_t end = bytes - (bytes - head) % LINE_BYTES;
    for (size_t i = head; i < end; i += LINE_BYTES) {
        for (size_t k = 0; k < LINE_BYTES; k += sizeof(__m128i)) {
            __m128i v = _mm_loadu_si128((const __m128i *)(const void *)(f + i + k));
            _mm_stream_si128((__m128i *)(void *)(t + i + k), v);
        }
    }
    _mm_sfence(); /* orders the stores before the one that tells of them */
    memcpy(t + end, f + end, bytes - end);
}
#else
void mem_copy_far(void *restrict to, const void *restrict from, size_t bytes)
{
    mem_copy(to, from, bytes);
}
#endif
