/* SPDX-License-Identifier: Apache-2.0 */
/* The key with which a worker proves to the shards of its job that the job's master has sent it,
 * and under which name. The master gives the job's secret (job/progress/fence.h) to the job's
 * servers alone, and to each worker a secret that is made of it and of the worker's id: a worker
 * can speak neither as another worker nor, to the shards, as the master. The key is made of the
 * worker's secret and of the opening of the shard, so it is worth nothing for another job, shard or
 * start of the job, and no secret travels with it. It goes in the metadata of a call: once for each
 * stream. */
#ifndef GRADUS_AUTH_SHARD_KEY_H
#define GRADUS_AUTH_SHARD_KEY_H

#include <stdbool.h>
#include <stdint.h>

#define SHARD_KEY_HEADER "gradus-shard-key"
#define SHARD_KEY_BYTES 44 /* base64url of HMAC-SHA256, with the NUL */
#define SHARD_KEY_SECRET_BYTES 16
/* The worker that readers of a job that runs are called, who may read (ParameterServer.Read) and
 * nothing else. No node has such an id. */
#define SHARD_READER "reader/"

/* The secret that the master gives to @worker, made of the job's @secret; zeros, which mean no
 * secret, give zeros. */
void shard_worker_secret(const uint8_t secret[SHARD_KEY_SECRET_BYTES], const char *worker,
                         uint8_t out[SHARD_KEY_SECRET_BYTES]);
/* The key of a worker with its @secret, for shard number @shard of @job, opened as @opening; ""
 * when the secret is all zeros, which is none. */
void shard_key(const uint8_t secret[SHARD_KEY_SECRET_BYTES], const char *job, uint32_t shard,
               uint64_t opening, char out[SHARD_KEY_BYTES]);
/* Takes the same time wherever they differ. */
bool shard_key_equal(const char *a, const char *b);

#endif
