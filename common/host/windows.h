/* SPDX-License-Identifier: Apache-2.0 */
/* Windows: memory through which a worker and a server on one host hand each other the values of a
 * shard, so that these pass no socket.
 *
 * The worker makes the memory, anonymous and sealed against shrinking, and offers it: process,
 * descriptor and a token that stands in the memory itself. The server opens the descriptor by way
 * of /proc, which the system allows to processes of the same user only, and believes the offer when
 * it finds the token there; in another process-id namespace it finds something else or nothing, and
 * both go on without.
 *
 * Each window has room for all elements of the shard, in its order. Gradient windows: the worker
 * takes a free one, fills it, and names it in a push; the server holds it, may write to it, and
 * gives it back. Value windows: the worker names one in a pull; the server fills it before it
 * answers. Pages that nobody touched cost nothing.
 *
 * Owner: reference counted, any thread. A window belongs to who took or holds it. */
#ifndef GRADUS_HOST_WINDOWS_H
#define GRADUS_HOST_WINDOWS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#define WINDOWS_TOKEN_BYTES 16
#define WINDOWS_MAX 16 /* of each kind, in an offer */
#define WINDOWS_NONE UINT32_MAX

struct windows;

struct windows_offer {
    uint64_t pid;
    uint32_t fd;
    uint8_t token[WINDOWS_TOKEN_BYTES];
    uint64_t elements;
    uint32_t gradients, values; /* windows of each kind */
};

struct windows *windows_ref(struct windows *w);
void windows_unref(struct windows *w); /* NULL is fine */

/* The memory of window @i, below the number of its kind: [elements]. */
float *windows_gradient(const struct windows *w, uint32_t i);
float *windows_values(const struct windows *w, uint32_t i);

/* Copy @count values into or out of a window of a shard of @elements. */
void windows_copy(uint64_t elements, float *restrict to, const float *restrict from,
                  uint64_t count);

/* ---- the worker's side ---- */

/* One reference. Errors: ERR_EXHAUSTED, ERR_UNAVAILABLE the system has no such memory. */
int windows_new(uint64_t elements, struct windows **out, struct err *err);
const struct windows_offer *windows_offer(const struct windows *w); /* borrows */
/* The number of a free window with memory behind it, now taken; WINDOWS_NONE: there is none. */
uint32_t windows_take_gradient(struct windows *w);
uint32_t windows_take_values(struct windows *w);
/* A window that was taken, and whose server has answered or was never told. */
void windows_return_values(struct windows *w, uint32_t i);
void windows_return_gradient(struct windows *w, uint32_t i);

/* ---- the server's side ---- */

/* Memory of @elements elements that somebody offers; one reference. Errors: ERR_INVALID not what
 * was said; ERR_UNAVAILABLE it cannot be opened from here. */
int windows_open(const struct windows_offer *offer, uint64_t elements, struct windows **out,
                 struct err *err);
/* Hold what the worker filled; false: there is no such window, or it was not its to give. */
bool windows_hold_gradient(struct windows *w, uint32_t i);
void windows_give_gradient(struct windows *w, uint32_t i);
/* It was held too early: the worker's gradient may be held later. */
void windows_leave_gradient(struct windows *w, uint32_t i);
bool windows_has_values(const struct windows *w, uint32_t i);
/* The pages of the window at @memory leave this process until it touches them again, and what is in
 * them stays. Others may use it meanwhile. */
void windows_drop(const struct windows *w, const float *memory);

#endif
