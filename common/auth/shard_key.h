/* SPDX-License-Identifier: Apache-2.0 */
/* With which the workers of a job prove to its shards that the job's master has sent them. It is
 * made of the job's secret (job/progress/fence.h), which the master has given to both sides, and of
 * the opening of the shard, so it is worth nothing for another job, shard or start of the job, and
 * the secret itself, with which shards are changed, does not travel with it. It goes in the
 * metadata of a call: once for each stream. */
#ifndef GRADUS_AUTH_SHARD_KEY_H
#define GRADUS_AUTH_SHARD_KEY_H

#include <stdbool.h>
#include <stdint.h>

#define SHARD_KEY_HEADER "gradus-shard-key"
#define SHARD_KEY_BYTES 44 /* base64url of HMAC-SHA256, with the NUL */
#define SHARD_KEY_SECRET_BYTES 16

/* The key of shard number @shard of @job, opened as @opening; "" when the secret is all zeros,
 * which is none. */
void shard_key(const uint8_t secret[SHARD_KEY_SECRET_BYTES], const char *job, uint32_t shard,
               uint64_t opening, char out[SHARD_KEY_BYTES]);
/* Takes the same time wherever they differ. */
bool shard_key_equal(const char *a, const char *b);

#endif
