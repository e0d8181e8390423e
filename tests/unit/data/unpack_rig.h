/* SPDX-License-Identifier: Apache-2.0 */
/* Packed files read through the one door for all files: what every way of packing has to keep. */
#ifndef GRADUS_TESTS_UNPACK_RIG_H
#define GRADUS_TESTS_UNPACK_RIG_H

#include "unit/data/data_rig.h"

#include "data/source.h"

/* Packs @n bytes into file @name: fixture_write_gz() or fixture_write_zstd(). */
typedef void pack_fn(const char *name, const void *data, size_t n);

/* @file is written and opened; the caller closes it. */
struct source *unpack_open(const void *file, size_t n);
/* What @pack makes of @n bytes, added to @out. */
void unpack_add(pack_fn *pack, const void *data, size_t n, struct buf *out);
/* All of @file, read in pieces of @piece bytes, is @expected, and its size was not known before. */
void unpack_reads(const struct buf *file, const uint8_t *expected, size_t n, size_t piece);
/* The first @n bytes of @file are refused with a message that holds @part; nothing is read. */
void unpack_refuses(const struct buf *file, size_t n, const char *part);

#endif
