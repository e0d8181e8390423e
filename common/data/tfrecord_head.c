/* SPDX-License-Identifier: Apache-2.0 */
/* The head of a TFRecord: the length of its bytes, lowest byte first, and the checksum of the
 * length. */
#include "data/tfrecord.h"

#include "base/crc32c.h"

#define LENGTH_BYTES 8

uint32_t tfrecord_number(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
           (uint32_t)bytes[3] << 24;
}

bool tfrecord_begins(const uint8_t *head, size_t n)
{
    return n >= TFRECORD_HEAD_BYTES &&
           crc32c_masked(head, LENGTH_BYTES) == tfrecord_number(head + LENGTH_BYTES);
}
