/* SPDX-License-Identifier: Apache-2.0 */
/* Notes in shared memory: a ring of them, how many were put and read, and two bells, which are
 * futexes. Who rings and who waits for it look at each other's last store, in one order for both:
 * one of them sees the other's. */
#include "host/shared_notes.h"

#include <linux/futex.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LINE_BYTES 64

struct bell {
    _Alignas(LINE_BYTES) _Atomic uint32_t rung;
    _Atomic uint32_t awaited;
};

struct shared_notes_memory {
    _Alignas(LINE_BYTES) _Atomic uint32_t put;  /* who puts writes here, */
    _Alignas(LINE_BYTES) _Atomic uint32_t read; /* and who reads here */
    _Atomic uint64_t word;
    struct bell bells[2];
    _Alignas(LINE_BYTES) unsigned char notes[SHARED_NOTES_MAX][SHARED_NOTE_BYTES];
};

_Static_assert(sizeof(struct shared_notes_memory) <= SHARED_NOTES_BYTES, "it fits");

static void wake(struct bell *b)
{
    atomic_fetch_add(&b->rung, 1);
    (void)syscall(SYS_futex, &b->rung, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

static void wake_who_waits(struct bell *b)
{
    if (atomic_load(&b->awaited) != 0 && atomic_exchange(&b->awaited, 0) != 0) {
        wake(b);
    }
}

bool shared_notes_put(struct shared_notes *n, const void *note, size_t bytes)
{
    struct shared_notes_memory *m = n->memory;
    if (n->count - atomic_load_explicit(&m->read, memory_order_acquire) >= SHARED_NOTES_MAX) {
        return false;
    }
    memcpy(m->notes[n->count % SHARED_NOTES_MAX], note, bytes);
    atomic_store(&m->put, ++n->count);
    wake_who_waits(&m->bells[SHARED_NOTES_PUT]);
    return true;
}

uint64_t shared_notes_word(const struct shared_notes *n)
{
    return atomic_load(&n->memory->word);
}

bool shared_notes_read(struct shared_notes *n, void *note)
{
    struct shared_notes_memory *m = n->memory;
    if (atomic_load(&m->put) == n->count) {
        return false;
    }
    memcpy(note, m->notes[n->count % SHARED_NOTES_MAX], SHARED_NOTE_BYTES);
    atomic_store_explicit(&m->read, ++n->count, memory_order_release);
    return true;
}

void shared_notes_say(const struct shared_notes *n, uint64_t word)
{
    atomic_store(&n->memory->word, word);
    wake_who_waits(&n->memory->bells[SHARED_NOTES_WORD]);
}

uint32_t shared_notes_rung(const struct shared_notes *n, enum shared_notes_bell bell)
{
    return atomic_load(&n->memory->bells[bell].rung);
}

void shared_notes_await(const struct shared_notes *n, enum shared_notes_bell bell)
{
    atomic_store(&n->memory->bells[bell].awaited, 1);
}

void shared_notes_wait(const struct shared_notes *n, enum shared_notes_bell bell, uint32_t rung)
{
    (void)syscall(SYS_futex, &n->memory->bells[bell].rung, FUTEX_WAIT, rung, NULL, NULL, 0);
}

void shared_notes_ring(const struct shared_notes *n, enum shared_notes_bell bell)
{
    wake(&n->memory->bells[bell]);
}
