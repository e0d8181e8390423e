/* SPDX-License-Identifier: Apache-2.0 */
/* The socket between a worker and its program, and memory that goes over it.
 *
 * A channel belongs to one thread. A receiver polls for a short while first and sleeps then: the
 * answer to a small batch is there before a sleeping processor would be awake. Where answers take
 * longer again and again it sleeps at once. */
#ifndef GRADUS_PROGRAM_CHANNEL_H
#define GRADUS_PROGRAM_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "program/program_message.h"

/* ---- memory ---- */

/* Anonymous memory that both sides have mapped. Zeroed is fine for release. */
struct program_memory {
    void *bytes; /* NULL: none */
    size_t size;
    int fd; /* -1, or the descriptor of the process that made it */
};

/* Makes memory whose pages are there, so that nobody is killed for lack of them later. Errors:
 * ERR_EXHAUSTED. */
int program_memory_new(size_t size, struct program_memory *out, struct err *err);
/* Memory that came with a message, of @size bytes at least; @fd is closed. Errors: ERR_INVALID it
 * is smaller, or its maker can still make it so; ERR_EXHAUSTED. */
int program_memory_map(int fd, size_t size, bool writable, struct program_memory *out,
                       struct err *err);
void program_memory_release(struct program_memory *m);

/* ---- messages ---- */

/* Both ends, not inherited by other processes. Errors: ERR_EXHAUSTED. */
int program_channel_pair(int ends[2], struct err *err);
void program_message_init(struct program_message *m, enum program_kind kind, uint64_t number);
/* @fd of memory (-1: none) stays the caller's. Errors: ERR_ABORTED the other side is gone. */
int program_send(int socket, const struct program_message *m, int fd, struct err *err);
/* Waits for the next message, polling for up to @spin_us, in all up to @timeout_ms (-1: for ever).
 * @fd becomes the descriptor of the memory that came along, the caller's, or -1. Texts in the
 * message end with a NUL. Errors: ERR_TIMEOUT; ERR_ABORTED the other side is gone; ERR_INVALID it
 * is no message of this version. */
int program_receive(int socket, unsigned spin_us, int timeout_ms, struct program_message *m,
                    int *fd, struct err *err);

/* Whether polling pays for who waits; zeroed: it may. */
struct program_spin {
    unsigned vain;   /* waits in a row that outlasted it */
    unsigned passed; /* waits since it was given up */
};
#define PROGRAM_SPIN_VAIN 8   /* then it is given up */
#define PROGRAM_SPIN_AGAIN 32 /* and tried in one of so many waits */

/* For how long to poll in the next wait, at most @most_us. */
unsigned program_spin_us(struct program_spin *s, unsigned most_us);
/* That wait is over, after @waited_ns. */
void program_spin_end(struct program_spin *s, unsigned most_us, uint64_t waited_ns);

/* ---- layout ---- */

uint64_t program_elements(const struct program_variable *v);
/* Where each variable begins in an array, in floats; returns how many it has. */
uint64_t program_layout(const struct program_variable *variables, size_t count, uint64_t *offsets);
/* Where the initial values begin in the memory of DESCRIBE, in bytes. */
uint64_t program_values_at(size_t variable_count, size_t table_count);
/* The number of keys of an answer to KEYS, of all tables. */
uint64_t program_key_count(const struct program_keys *keys);

#endif
