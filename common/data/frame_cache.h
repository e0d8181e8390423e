/* SPDX-License-Identifier: Apache-2.0 */
/* A cache of unpacked pieces of files, for any thread. Pieces that were not asked for the longest
 * make room for others. */
#ifndef GRADUS_DATA_FRAME_CACHE_H
#define GRADUS_DATA_FRAME_CACHE_H

#include <stddef.h>
#include <stdint.h>

struct frame_cache;
struct frame; /* one piece, which stays while somebody holds it */

/* Keeps up to @bytes of pieces that nobody holds. */
struct frame_cache *frame_cache_new(uint64_t bytes);
void frame_cache_free(struct frame_cache *c); /* NULL is fine; no piece may be held */
/* A number for one more file. */
uint64_t frame_cache_file(struct frame_cache *c);
/* The piece @number of @file, or NULL. */
struct frame *frame_cache_take(struct frame_cache *c, uint64_t file, uint64_t number);
/* Adds a piece, takes its @bytes, and holds it. */
struct frame *frame_cache_add(struct frame_cache *c, uint64_t file, uint64_t number, char *bytes,
                              size_t n);
const char *frame_bytes(const struct frame *f);
size_t frame_size(const struct frame *f);
void frame_cache_give(struct frame_cache *c, struct frame *f);

#endif
