/* SPDX-License-Identifier: Apache-2.0 */
/* Short notes from one process to another, and word back of how far they count: in memory that both
 * see (shared_memory.h), for those whose messages are mostly the same and would cost more than what
 * they say.
 *
 * Notes are read in the order in which they were put, each once. There is room for a few that were
 * not read; who finds none does it another way, or waits for word. Word back is a number that
 * grows. Nobody is woken who is not waiting: each side says that it will wait, looks once more, and
 * then waits for its bell, which the other one rings.
 *
 * The memory may be written by anybody who sees it: what comes out of it is a copy, and to be
 * checked; a bell that rings for nothing, or not, costs a look, or a wait, and nothing else.
 *
 * Owner: the putting and the reading side each belong to one thread at a time; words and bells to
 * any. */
#ifndef GRADUS_HOST_SHARED_NOTES_H
#define GRADUS_HOST_SHARED_NOTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHARED_NOTES_MAX 4 /* that were not read */
#define SHARED_NOTE_BYTES 320
#define SHARED_NOTES_BYTES 2048 /* of the memory, zeroed at first */

/* One side of it. */
struct shared_notes {
    struct shared_notes_memory *memory; /* of SHARED_NOTES_BYTES, at a multiple of 64 */
    uint32_t count;                     /* put, or read */
};

/* ---- who puts notes ---- */

/* @bytes up to SHARED_NOTE_BYTES. False: there is no room. */
bool shared_notes_put(struct shared_notes *n, const void *note, size_t bytes);
uint64_t shared_notes_word(const struct shared_notes *n);

/* ---- who reads them ---- */

/* Copies the next one to @note, of SHARED_NOTE_BYTES. False: there is none. */
bool shared_notes_read(struct shared_notes *n, void *note);
void shared_notes_say(const struct shared_notes *n, uint64_t word);

/* ---- bells ---- */

enum shared_notes_bell {
    SHARED_NOTES_PUT, /* for who reads, with the next note */
    SHARED_NOTES_WORD /* for who puts, with the next word */
};

uint32_t shared_notes_rung(const struct shared_notes *n, enum shared_notes_bell bell);
/* From now on the bell rings, once. What came before must be looked for after this. */
void shared_notes_await(const struct shared_notes *n, enum shared_notes_bell bell);
/* Waits until the bell has rung since shared_notes_rung() said @rung, or for no reason. */
void shared_notes_wait(const struct shared_notes *n, enum shared_notes_bell bell, uint32_t rung);
/* Rings it for its own side: whoever waits goes on. */
void shared_notes_ring(const struct shared_notes *n, enum shared_notes_bell bell);

#endif
