/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that a worker and a parameter server share (memfd): a page with a token and flags, then
 * the gradient blocks, then the value blocks. The other side may write anything; all is
 * checked. */
#include "host/shared_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "host/shared_notes.h"

#define GRADIENTS 4 /* one is filled while others wait to be summed; without one, values go the */
#define VALUES 3    /* usual way. Two sets for training and one for evaluation */

#define HEADER_BYTES 4096
#define NOTES_AT (HEADER_BYTES - SHARED_NOTES_BYTES) /* in the header */
/* A page and four lines: blocks compete for other cache sets than their neighbours. */
#define STAGGER_BYTES (4096 + 256)
#define LINE_BYTES 64
/* Values, gradient and blocks of a larger shard do not stay in the last-level cache between the
 * thread that writes and the one that reads. */
#define FAR_FROM_BYTES (8U << 20)
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define ELEMENTS_MAX (UINT64_C(1) << 40)

/* On a line of its own, which no other thread writes to while one side polls it. */
struct bell {
    _Alignas(LINE_BYTES) _Atomic uint64_t filled;
};

/* At the beginning of the memory. */
struct header {
    uint8_t token[SHARED_MEMORY_TOKEN_BYTES];
    _Atomic uint32_t
        taken[SHARED_MEMORY_BLOCKS_MAX]; /* gradients: the worker sets, the server clears */
    /* Values: the worker clears when it takes the block, the server says how far it is. */
    struct bell bells[SHARED_MEMORY_BLOCKS_MAX];
};

_Static_assert(sizeof(struct header) <= NOTES_AT, "notes and blocks begin behind it");

struct shared_memory {
    atomic_uint refs;
    struct shared_memory_offer offer;
    int fd; /* -1: the server needs none */
    char *memory;
    uint64_t bytes;
    /* The worker's: values blocks that are taken, and blocks that have memory. The server's:
     * gradient blocks that it holds; what is in the memory anybody may have written. */
    _Atomic uint32_t values_taken[SHARED_MEMORY_BLOCKS_MAX];
    _Atomic uint64_t backed[2 * SHARED_MEMORY_BLOCKS_MAX]; /* so many bytes */
    atomic_bool held[SHARED_MEMORY_BLOCKS_MAX];
};

/* ---- layout ---- */

static uint64_t stride(uint64_t elements)
{
    uint64_t bytes = elements * sizeof(float);
    return (bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES + STAGGER_BYTES;
}

static uint64_t offset_of(const struct shared_memory *w, uint32_t place)
{
    return HEADER_BYTES + place * stride(w->offer.elements);
}

static uint64_t bytes_of(const struct shared_memory_offer *o)
{
    return HEADER_BYTES + (uint64_t)(o->gradients + o->values) * stride(o->elements);
}

static struct header *header_of(const struct shared_memory *w)
{
    return (struct header *)(void *)w->memory;
}

float *shared_memory_gradient(const struct shared_memory *w, uint32_t i)
{
    return (float *)(void *)(w->memory + offset_of(w, i));
}

float *shared_memory_values(const struct shared_memory *w, uint32_t i)
{
    return (float *)(void *)(w->memory + offset_of(w, w->offer.gradients + i));
}

struct shared_notes_memory *shared_memory_notes(const struct shared_memory *w)
{
    return (struct shared_notes_memory *)(void *)(w->memory + NOTES_AT);
}

/* The lines of @to are in the cache of the other side. The string instruction that the C library
 * copies with takes them over without reading what they hold, which loops do; some AMD processors
 * have it only for addresses that are aligned. */
static void copy_near(float *restrict to, const float *restrict from, uint64_t count)
{
    const uint64_t ahead = (LINE_BYTES - (uintptr_t)to % LINE_BYTES) % LINE_BYTES / sizeof(float);
    const uint64_t head = ahead < count ? ahead : count;
    mem_copy(to, from, head * sizeof(float));
    memcpy(to + head, from + head, (count - head) * sizeof(float));
}

void shared_memory_copy(uint64_t elements, float *restrict to, const float *restrict from,
                        uint64_t count)
{
    if (elements * sizeof(float) < FAR_FROM_BYTES) {
        copy_near(to, from, count);
    } else {
        mem_copy_far(to, from, count * sizeof(float));
    }
}

/* ---- life ---- */

struct shared_memory *shared_memory_ref(struct shared_memory *w)
{
    atomic_fetch_add(&w->refs, 1);
    return w;
}

void shared_memory_unref(struct shared_memory *w)
{
    if (w == NULL || atomic_fetch_sub(&w->refs, 1) != 1) {
        return;
    }
    if (w->memory != NULL) {
        (void)munmap(w->memory, (size_t)w->bytes);
    }
    if (w->fd >= 0) {
        (void)close(w->fd);
    }
    free(w);
}

static int map(struct shared_memory *w, int fd, struct err *err)
{
    void *memory = mmap(NULL, (size_t)w->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) {
        return err_set(err, ERR_EXHAUSTED, "map %" PRIu64 " bytes of shared memory: %s", w->bytes,
                       strerror(errno));
    }
    w->memory = memory;
    return 0;
}

static struct shared_memory *new_shared_memory(const struct shared_memory_offer *offer)
{
    struct shared_memory *w = mem_new(1, sizeof *w);
    atomic_store(&w->refs, 1);
    w->offer = *offer;
    w->fd = -1;
    w->bytes = bytes_of(offer);
    return w;
}

static int make(struct shared_memory *w, struct err *err)
{
    w->fd = memfd_create("gradus-shared", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (w->fd < 0 || ftruncate(w->fd, (off_t)w->bytes) != 0 ||
        fcntl(w->fd, F_ADD_SEALS, SEALS) != 0 || fallocate(w->fd, 0, 0, HEADER_BYTES) != 0) {
        return err_set(err, ERR_UNAVAILABLE, "make %" PRIu64 " bytes of shared memory: %s",
                       w->bytes, strerror(errno));
    }
    int rc = map(w, w->fd, err);
    if (rc != 0) {
        return rc;
    }
    if (getrandom(w->offer.token, sizeof w->offer.token, 0) != (ssize_t)sizeof w->offer.token) {
        return err_set(err, ERR_UNAVAILABLE, "the system has no random numbers");
    }
    w->offer.fd = (uint32_t)w->fd;
    memcpy(header_of(w)->token, w->offer.token, sizeof w->offer.token);
    return 0;
}

int shared_memory_new(uint64_t elements, struct shared_memory **out, struct err *err)
{
    struct shared_memory_offer offer = {
        .pid = (uint64_t)getpid(), .elements = elements, .gradients = GRADIENTS, .values = VALUES};
    if (elements == 0 || elements > ELEMENTS_MAX) {
        return err_set(err, ERR_EXHAUSTED, "shared memory for %" PRIu64 " elements", elements);
    }
    struct shared_memory *w = new_shared_memory(&offer);
    int rc = make(w, err);
    if (rc != 0) {
        shared_memory_unref(w);
        return rc;
    }
    *out = w;
    return 0;
}

const struct shared_memory_offer *shared_memory_offer(const struct shared_memory *w)
{
    return &w->offer;
}

/* ---- the worker's side ---- */

/* Reserves pages before they are written to: want of memory is an answer here, and the end of the
 * process later. The next use may be a little larger than this one. */
static bool back(struct shared_memory *w, uint32_t place, uint64_t elements)
{
    const uint64_t all = w->offer.elements * sizeof(float), bytes = elements * sizeof(float);
    if (atomic_load(&w->backed[place]) >= bytes) {
        return true;
    }
    const uint64_t more = bytes + bytes / 4 < all ? bytes + bytes / 4 : all;
    if (fallocate(w->fd, 0, (off_t)offset_of(w, place), (off_t)more) != 0) {
        return false;
    }
    atomic_store(&w->backed[place], more);
    return true;
}

/* The first of @count blocks that is free, by their flags; they lie from @place on. */
static uint32_t take(struct shared_memory *w, _Atomic uint32_t *taken, uint32_t count,
                     uint32_t place, uint64_t elements)
{
    for (uint32_t i = 0; i < count && elements <= w->offer.elements; i++) {
        uint32_t free_one = 0;
        if (atomic_compare_exchange_strong(&taken[i], &free_one, 1)) {
            if (back(w, place + i, elements)) {
                return i;
            }
            atomic_store(&taken[i], 0);
            break;
        }
    }
    return SHARED_MEMORY_NONE;
}

uint32_t shared_memory_take_gradient_of(struct shared_memory *w, uint64_t elements)
{
    return take(w, header_of(w)->taken, w->offer.gradients, 0, elements);
}

uint32_t shared_memory_take_gradient(struct shared_memory *w)
{
    return shared_memory_take_gradient_of(w, w->offer.elements);
}

void shared_memory_return_gradient(struct shared_memory *w, uint32_t i)
{
    atomic_store(&header_of(w)->taken[i], 0);
}

uint32_t shared_memory_take_values_of(struct shared_memory *w, uint64_t elements)
{
    const uint32_t i = take(w, w->values_taken, w->offer.values, w->offer.gradients, elements);
    if (i != SHARED_MEMORY_NONE) {
        atomic_store_explicit(&header_of(w)->bells[i].filled, 0, memory_order_relaxed);
    }
    return i;
}

uint32_t shared_memory_take_values(struct shared_memory *w)
{
    return shared_memory_take_values_of(w, w->offer.elements);
}

uint64_t shared_memory_filled(const struct shared_memory *w, uint32_t i)
{
    const uint64_t n = atomic_load_explicit(&header_of(w)->bells[i].filled, memory_order_acquire);
    return n < w->offer.elements ? n : w->offer.elements; /* anybody may have written it */
}

void shared_memory_return_values(struct shared_memory *w, uint32_t i)
{
    atomic_store(&w->values_taken[i], 0);
}

/* ---- the server's side ---- */

static int check_offer(const struct shared_memory_offer *o, uint64_t elements, struct err *err)
{
    if (o->elements != elements || elements == 0 || elements > ELEMENTS_MAX) {
        return err_set(err, ERR_INVALID,
                       "blocks of %" PRIu64 " elements are offered; the shard has %" PRIu64,
                       o->elements, elements);
    }
    if (o->gradients > SHARED_MEMORY_BLOCKS_MAX || o->values > SHARED_MEMORY_BLOCKS_MAX ||
        o->pid == 0 || o->pid > INT32_MAX || o->fd > INT32_MAX) {
        return err_set(err, ERR_INVALID,
                       "%" PRIu32 " + %" PRIu32 " blocks of process %" PRIu64
                       ", descriptor %" PRIu32 ", are offered",
                       o->gradients, o->values, o->pid, o->fd);
    }
    return 0;
}

/* Nothing is opened before it is known to be memory of this user: opening another thing may have
 * effects. */
static int open_memory(const struct shared_memory_offer *o, struct err *err)
{
    char path[64];
    struct stat st;
    (void)snprintf(path, sizeof path, "/proc/%" PRIu64 "/fd/%" PRIu32, o->pid, o->fd);
    int at = open(path, O_PATH | O_CLOEXEC);
    if (at < 0) {
        return err_set(err, ERR_UNAVAILABLE, "%s: %s", path, strerror(errno));
    }
    int fd = -1;
    if (fstat(at, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid()) {
        char again[64];
        (void)snprintf(again, sizeof again, "/proc/self/fd/%d", at);
        fd = open(again, O_RDWR | O_CLOEXEC);
    }
    (void)close(at);
    return fd >= 0 ? fd
                   : err_set(err, ERR_UNAVAILABLE, "%s is not memory that this user shares", path);
}

/* Memory that could shrink would end a process that reads it. */
static int check_memory(const struct shared_memory *w, int fd, struct err *err)
{
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || fstat(fd, &st) != 0 ||
        (uint64_t)st.st_size != w->bytes) {
        return err_set(err, ERR_INVALID,
                       "what is offered is not %" PRIu64 " bytes of sealed memory", w->bytes);
    }
    return 0;
}

static int attach(struct shared_memory *w, struct err *err)
{
    int fd = open_memory(&w->offer, err);
    if (fd < 0) {
        return fd;
    }
    int rc = check_memory(w, fd, err);
    rc = rc != 0 ? rc : map(w, fd, err);
    (void)close(fd);
    if (rc == 0 && memcmp(header_of(w)->token, w->offer.token, sizeof w->offer.token) != 0) {
        rc = err_set(err, ERR_UNAVAILABLE, "the memory of that process is another one's");
    }
    return rc;
}

int shared_memory_open(const struct shared_memory_offer *offer, uint64_t elements,
                       struct shared_memory **out, struct err *err)
{
    int rc = check_offer(offer, elements, err);
    if (rc != 0) {
        return rc;
    }
    struct shared_memory *w = new_shared_memory(offer);
    rc = attach(w, err);
    if (rc != 0) {
        shared_memory_unref(w);
        return rc;
    }
    *out = w;
    return 0;
}

bool shared_memory_hold_gradient(struct shared_memory *w, uint32_t i)
{
    return i < w->offer.gradients && atomic_load(&header_of(w)->taken[i]) != 0 &&
           !atomic_exchange(&w->held[i], true);
}

void shared_memory_give_gradient(struct shared_memory *w, uint32_t i)
{
    atomic_store(&w->held[i], false);
    atomic_store(&header_of(w)->taken[i], 0);
}

void shared_memory_leave_gradient(struct shared_memory *w, uint32_t i)
{
    atomic_store(&w->held[i], false);
}

bool shared_memory_has_values(const struct shared_memory *w, uint32_t i)
{
    return i < w->offer.values;
}

void shared_memory_tell_filled(struct shared_memory *w, uint32_t i, uint64_t end)
{
    atomic_store_explicit(&header_of(w)->bells[i].filled, end, memory_order_release);
}

/* Drops whole pages, so some of the neighbours' as well. A page that is dropped while somebody
 * touches it comes back. */
void shared_memory_drop(const struct shared_memory *w, const float *memory)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t from = (uint64_t)((const char *)memory - w->memory) / page * page;
    uint64_t end = from + page + w->offer.elements * sizeof(float);
    end = end < w->bytes ? end : w->bytes;
    (void)madvise(w->memory + from, (size_t)(end - from), MADV_DONTNEED);
}
