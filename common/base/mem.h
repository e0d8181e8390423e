/* SPDX-License-Identifier: Apache-2.0 */
/* Memory.
 *
 * Small bookkeeping memory comes from mem_new() and friends, which end the process with a clear
 * message when there is none left: no caller could do better. Memory whose size a user or a peer
 * chose (tensors, messages, files) comes from mem_try_*(), which report ERR_EXHAUSTED. */
#ifndef GRADUS_BASE_MEM_H
#define GRADUS_BASE_MEM_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

#define MEM_ALIGN 64 /* a cache line, and the widest vector register */

/* @count zeroed elements of @size bytes; never NULL; free with free(). */
void *mem_new(size_t count, size_t size);
/* Resize to @count elements; new bytes are not zeroed; never NULL. */
void *mem_resize(void *p, size_t count, size_t size);
char *mem_strdup(const char *s); /* NULL gives NULL */
/* Copies of @count texts; mem_free_texts(). */
char **mem_copy_texts(const char *const *texts, size_t count);
void mem_free_texts(char **texts, size_t count);
char *mem_printf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* @count elements of @size bytes at a 64-byte boundary, zeroed; returns owned, free with free().
 * @what names the purpose in the message. Errors: ERR_EXHAUSTED (NULL is returned). */
void *mem_try_aligned(size_t count, size_t size, const char *what, struct err *err);
/* @bytes zeroed bytes, more than 0, in pages of their own: mem_free_pages() gives them back to the
 * system at once, where free() may keep them for later. The same errors. */
void *mem_try_pages(size_t bytes, const char *what, struct err *err);
void mem_free_pages(void *p, size_t bytes);

/* memcpy() for arrays of many values, which another core may have written last. */
void mem_copy(void *restrict to, const void *restrict from, size_t bytes);
/* The same past the cache, for what this core will not read again and is larger than the cache with
 * all that is used before it is read: a third less for the memory to do. */
void mem_copy_far(void *restrict to, const void *restrict from, size_t bytes);

/* False when the product does not fit. */
bool mem_mul(size_t a, size_t b, size_t *product);
/* Grow @array (elements of @size) so that @need fit; doubles; keeps @capacity up to date. */
void *mem_grow(void *array, size_t *capacity, size_t need, size_t size);

#endif
