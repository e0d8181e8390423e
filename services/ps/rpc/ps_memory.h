/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of a shard: taken when it is opened, more or less of it with the generations, and
 * given back when it is closed. */
#ifndef GRADUS_PS_RPC_PS_MEMORY_H
#define GRADUS_PS_RPC_PS_MEMORY_H

#include "ps/rpc/ps_shell.h"

/* All that @s needs for the workers of @r. @freed is called, from any thread, when a snapshot that
 * was wanted is free. Errors: ERR_EXHAUSTED; ERR_RANGE it would never fit. */
int ps_memory_take(struct ps_shard *s, const Gradus__V1__OpenShardRequest *r,
                   void (*freed)(void *shard), struct err *err);
/* Versions that may have to be kept for so many workers. */
size_t ps_memory_bases(const struct ps_shard *s, const struct consistency *c, size_t workers);
/* On the strand: memory for so many. Errors: ERR_EXHAUSTED, when they are more than before. */
int ps_memory_reserve_bases(struct ps_shard *s, size_t bases, struct err *err);
/* On the strand: memory for the versions that @readers pin; once there was one, for one at least,
 * as the next will come. Errors: ERR_EXHAUSTED, when they are more than before. */
int ps_memory_reserve_readers(struct ps_shard *s, size_t readers, struct err *err);
/* On the strand: memory for one copy of the slots, and @more. Errors: ERR_EXHAUSTED. */
int ps_memory_reserve_copies(struct ps_shard *s, size_t more, struct err *err);
uint64_t ps_memory_copies_bytes(const struct ps_shard *s); /* of one */
/* On the strand: the shard is closed, and who cannot use it any more must not hold its memory.
 * Readers of a version, and files that are being written, keep theirs until they are done. */
void ps_memory_let_go(struct ps_shard *s);
#endif
