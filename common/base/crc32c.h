/* SPDX-License-Identifier: Apache-2.0 */
/* CRC-32C, of Castagnoli's polynomial (RFC 3720, B.4): what TFRecord files and event files are
 * checked with. By the processor's instruction where it has one, else by tables. */
#ifndef GRADUS_BASE_CRC32C_H
#define GRADUS_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

uint32_t crc32c_of(const void *data, size_t n);
/* As these files store it: rotated right by 15 bits, and 0xa282ead8 added, so that a sum over data
 * that contain sums is not special. */
uint32_t crc32c_masked(const void *data, size_t n);
/* By tables, whatever the processor has; for tests. */
uint32_t crc32c_by_tables(const void *data, size_t n);

#endif
