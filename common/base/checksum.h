/* SPDX-License-Identifier: Apache-2.0 */
/* Checksums of files and buffers: XXH3, 64 bits (xxhash), against damage, not against forgery. */
#ifndef GRADUS_BASE_CHECKSUM_H
#define GRADUS_BASE_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

uint64_t checksum_of(const void *data, size_t n);

struct checksum; /* a running sum */
struct checksum *checksum_new(void);
void checksum_add(struct checksum *c, const void *data, size_t n);
uint64_t checksum_value(const struct checksum *c);
void checksum_free(struct checksum *c); /* NULL is fine */

#endif
