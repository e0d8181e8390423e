/* SPDX-License-Identifier: Apache-2.0 */
/* The table of the master's calls to nodes: which calls are open, which of them are sent again and
 * when, and for which a node is given up.
 *
 * The table knows nothing of jobs. An owner begins a call (call_send.c) and hears how it ended
 * (call_done.c); here the owner is a name and a pointer that nobody follows. A row moves when
 * another one is removed, so a pointer to a row is good until the next function that adds or
 * removes. Owner: the master. */
#ifndef GRADUS_MASTER_CORE_CALL_H
#define GRADUS_MASTER_CORE_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "master/core/master.h"

struct job; /* an owner */
struct node;
struct node_work;

struct call {
    uint64_t number;
    enum master_call_kind kind;
    struct job *job;
    const char *job_id; /* borrowed from the owner */
    struct node *node;
    uint32_t index;      /* shard, or chunk of an evaluation */
    bool backup;         /* OPEN: the shard's backup is meant */
    uint64_t opening;    /* of a call to a shard: the one that is meant; 0: no such call */
    bool hold;           /* ASSIGN */
    uint64_t start;      /* STOP: the newest of the job's when it was begun */
    uint64_t generation; /* 0: it was not sent yet */
    /* attempts that did not reach the node, or whose answer did not reach the master */
    unsigned attempts;
    unsigned refusals; /* that may pass */
    bool flying;       /* sent and not answered; otherwise it waits to be sent again */
    uint64_t due_ms;   /* when it is to be sent; UINT64_MAX: not known yet */
    bool begun;        /* it was sent once */
    uint64_t begun_ms; /* then */
    bool worked;       /* the node says that it works on the call, or on what the call waits for */
    /* when the node last said so, with progress; before that, when the call was first sent */
    uint64_t heard_ms;
    char failure[160]; /* why the last attempt failed; "": none has */
};

/* Zeroed is empty. */
struct call_table {
    struct call *rows;
    size_t count, capacity;
    uint64_t late_ms; /* a node that was not heard for so long is not given up for its calls: */
};

/* ---- kinds of calls ---- */

/* A shard answers it only in its present generation, and it goes on through a regrouping. */
bool call_follows_generation(enum master_call_kind kind);
bool call_is_to_shard(enum master_call_kind kind);
/* its request names the generation of the job */
bool call_has_generation(enum master_call_kind kind);

/* ---- rows ---- */

void calls_release(struct call_table *t);
struct call *calls_add(struct call_table *t, const struct call *c); /* copies @c */
struct call calls_remove(struct call_table *t, struct call *c);     /* and what it was */
struct call *calls_find(struct call_table *t, uint64_t number);     /* sent; NULL: none */
size_t calls_open(const struct call_table *t, const struct job *j, enum master_call_kind kind);
/* True if a call of @kind to @n is open. */
bool calls_open_to(const struct call_table *t, const struct node *n, enum master_call_kind kind);
/* True if @n is being told to drop something of @j. */
bool calls_open_of(const struct call_table *t, const struct job *j, const struct node *n);
void calls_forget(struct call_table *t, const struct job *j, enum master_call_kind kind);
void calls_forget_opening(struct call_table *t, const struct job *j, uint32_t shard,
                          uint64_t opening); /* OPEN */
/* Removes all calls of the job but those that tell nodes to drop it: the place of a node is free
 * when it has dropped the job. */
void calls_forget_job(struct call_table *t, const struct job *j);
void calls_forget_node(struct call_table *t, const struct node *n,
                       const struct job *j); /* j NULL: all */

/* ---- one call ---- */

void call_sent(struct call *c, uint64_t number, uint64_t generation, uint64_t now_ms);
void call_wait(struct call *c); /* it is not sent until its owner sends it */
/* It failed with @err. True: it is in the table and is sent again, at once or after a pause. */
bool call_retry(struct call *c, const struct err *err, uint64_t now_ms);

/* ---- time ---- */

/* The first row that is to be sent, or over which its node is to be given up; NULL: none. */
struct call *calls_due(struct call_table *t, uint64_t now_ms);
bool call_is_given_up(const struct call_table *t, const struct call *c, uint64_t now_ms);
uint64_t calls_timer(const struct call_table *t);
void calls_late(struct call_table *t, uint64_t late_ms,
                uint64_t now_ms); /* nobody looked for so long */
/* the time of its silence does not count. It was silent for @silent_ms, and is heard. */
void calls_silent(struct call_table *t, const struct node *n, uint64_t silent_ms, uint64_t now_ms);
/* @n has said what keeps it busy. */
void calls_heard(struct call_table *t, const struct node *n);
/* The work of its node that @c is, or waits for; NULL: none. */
const struct node_work *call_work(const struct call *c);
/* Why the node of @c is given up; appended. */
void call_silence_words(const struct call *c, uint64_t now_ms, struct buf *words);

#endif
