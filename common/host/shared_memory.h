/* SPDX-License-Identifier: Apache-2.0 */
/* Memory through which a worker and a server on one host hand each other the values of a shard, in
 * blocks, so that these pass no socket.
 *
 * The worker makes the memory, anonymous and sealed against shrinking, and offers it: process,
 * descriptor and a token that stands in the memory itself. The server opens the descriptor by way
 * of /proc, which the system allows to processes of the same user only, and believes the offer when
 * it finds the token there; in another process-id namespace it finds something else or nothing, and
 * both go on without.
 *
 * Each block has room for all elements of the shard, in its order; or, in memory for rows of
 * tables, for as many as the worker chose, of which only those that are used take memory. Gradient
 * blocks: the worker takes a free one, fills it, and names it in a push; the server holds it, may
 * write to it, and gives it back. Value blocks: the worker names one in a pull; the server fills it
 * before it answers, from its first element on, and tells in the memory how far it is: a bell that
 * who polls can see, so that copying out of the block goes on beside the filling. What is told is a
 * courtesy: a server that tells nothing is as right as one that does, and only the answer says that
 * the values count. Pages that nobody touched cost nothing.
 *
 * Owner: reference counted, any thread. A block belongs to who took or holds it.
 *
 * Why the worker makes the memory (decision 29): it pays for it, and nothing is configured, left
 * behind in a file system, or found by the wrong process. The copies that remain are the worker's,
 * which gathers its gradient and scatters the parameters, and one of the server's, piece by piece
 * while the update has the piece in the cache. The memory belongs to one stream: a server that has
 * lost the stream may go on writing there, and nobody reads it any more. A server that lent its
 * snapshots instead would save its copy, but a dead reader would hold a version. Pages count
 * against the same limit as gradients in messages (ps/core/gradient_budget.h).
 *
 * Why there is a bell (decision 62): computing, filling and copying out go on beside each other for
 * the price of a store and a look, where a message for each piece costs both sides more than the
 * piece. Nothing rests on the bell. A number that is too large is cut to what there is; an exchange
 * that fails leaves an array that is pulled anew; a server that is killed between two pieces costs
 * a wait and no more. Gradients have no bell: a server that waited for one would hold its shard's
 * strand for a worker that may be dead. */
#ifndef GRADUS_HOST_SHARED_MEMORY_H
#define GRADUS_HOST_SHARED_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#define SHARED_MEMORY_TOKEN_BYTES 16
#define SHARED_MEMORY_BLOCKS_MAX 16 /* of each kind, in an offer */
#define SHARED_MEMORY_NONE UINT32_MAX

struct shared_memory;
struct shared_notes_memory;

struct shared_memory_offer {
    uint64_t pid;
    uint32_t fd;
    uint8_t token[SHARED_MEMORY_TOKEN_BYTES];
    uint64_t elements;
    uint32_t gradients, values; /* blocks of each kind */
};

struct shared_memory *shared_memory_ref(struct shared_memory *w);
void shared_memory_unref(struct shared_memory *w); /* NULL is fine */

/* The memory of block @i, below the number of its kind: [elements]. */
float *shared_memory_gradient(const struct shared_memory *w, uint32_t i);
float *shared_memory_values(const struct shared_memory *w, uint32_t i);

/* A place for notes from who has made the memory to who has opened it (shared_notes.h). */
struct shared_notes_memory *shared_memory_notes(const struct shared_memory *w);

/* Copy @count values into or out of a block of a shard of @elements. */
void shared_memory_copy(uint64_t elements, float *restrict to, const float *restrict from,
                        uint64_t count);

/* ---- the worker's side ---- */

/* One reference. Errors: ERR_EXHAUSTED, ERR_UNAVAILABLE the system has no such memory. */
int shared_memory_new(uint64_t elements, struct shared_memory **out, struct err *err);
const struct shared_memory_offer *shared_memory_offer(const struct shared_memory *w); /* borrows */
/* The number of a free block with memory behind it, now taken; SHARED_MEMORY_NONE: there is none.
 */
uint32_t shared_memory_take_gradient(struct shared_memory *w);
uint32_t shared_memory_take_values(struct shared_memory *w);
/* The same with memory behind the first @elements alone; none, too, when a block has fewer. */
uint32_t shared_memory_take_gradient_of(struct shared_memory *w, uint64_t elements);
uint32_t shared_memory_take_values_of(struct shared_memory *w, uint64_t elements);
/* So many elements of a value block that is taken are filled since it was taken, as its server
 * tells: 0 to all. They do not count before it has answered. */
uint64_t shared_memory_filled(const struct shared_memory *w, uint32_t i);
/* A block that was taken, and whose server has answered or was never told. */
void shared_memory_return_values(struct shared_memory *w, uint32_t i);
void shared_memory_return_gradient(struct shared_memory *w, uint32_t i);

/* ---- the server's side ---- */

/* Opens memory of @elements elements that another process offers; one reference. Errors:
 * ERR_INVALID it is not what the offer says; ERR_UNAVAILABLE it cannot be opened from here. */
int shared_memory_open(const struct shared_memory_offer *offer, uint64_t elements,
                       struct shared_memory **out, struct err *err);
/* Holds the block that the worker filled; false: there is no such block, or the worker did not have
 * it. */
bool shared_memory_hold_gradient(struct shared_memory *w, uint32_t i);
void shared_memory_give_gradient(struct shared_memory *w, uint32_t i);
/* It was held too early: the worker's gradient may be held later. */
void shared_memory_leave_gradient(struct shared_memory *w, uint32_t i);
bool shared_memory_has_values(const struct shared_memory *w, uint32_t i);
/* The elements before @end of a value block that there is are filled. */
void shared_memory_tell_filled(struct shared_memory *w, uint32_t i, uint64_t end);
/* The pages of the block at @memory leave this process until it touches them again, and what is in
 * them stays. Others may use it meanwhile. */
void shared_memory_drop(const struct shared_memory *w, const float *memory);

#endif
