/* SPDX-License-Identifier: Apache-2.0 */
/* What is on the network, and in the memory of who sends and receives it. Only sim.h includes this.
 */
#ifndef GRADUS_SIM_MESSAGES_H
#define GRADUS_SIM_MESSAGES_H

#include "job/progress/consistency.h"
#include "job/progress/fence.h"
#include "job/progress/ledger.h"
#include "master/core/master.h"
#include "master/core/trace_rounds.h"
#include "ps/core/shard.h"
#include "sim/plans.h"
#include "sim/standby.h"
#include "sim/tables.h"
#include "worker/core/worker.h"

/* ---- what is pushed and read ---- */

/* Which batches of a job: bit b of word e is batch b of epoch e. */
struct ids {
    uint64_t epoch[SIM_EPOCHS_MAX];
};

struct tensor {
    float v[SIM_ELEMENTS_MAX];
};

/* Sums over a whole gradient, or the part of some shards: what is packed in messages. They are of
 * the gradient's bits, so that a wrong one shows in the values. */
struct sim_sums {
    uint64_t step, value;
    uint32_t round;
    uint32_t shards; /* a bit for each that it is of; all: totals */
};

/* A gradient in a server's memory; what core events call a buffer. */
struct gradient {
    struct gradient *next, *all; /* free ones; all that were ever made */
    struct tensor t;
    struct ids ids;                 /* of the batches that are summed up in it */
    uint64_t generation;            /* of the requests that brought it: the oldest */
    bool counted;                   /* in the budget of its server */
    struct tables_gradient *tables; /* NULL: none */
};

/* ---- the network (net.c) ---- */

enum unary_kind {
    UNARY_CALL, /* of the master; `call` says which */
    UNARY_JOIN,
    UNARY_HEARTBEAT,
    UNARY_LEAVE,
    UNARY_LEASE,
    UNARY_REPORT_SPLIT,
    UNARY_REPORT_PROGRESS,
    UNARY_REPORT_FAILURE,
    UNARY_STRANGER, /* as UNARY_CALL, of nobody */
    UNARY_TRACE,    /* of the master: `trace` says what */
    UNARY_FILL,     /* of a worker to a server */
    UNARY_RECORD,   /* of a primary to its backup */
    UNARY_KIND_COUNT
};

struct sim_era { /* an update section, as far as the simulator goes by it */
    uint64_t version;
    float rate;
    uint32_t rounds;
};

struct flat_ledger { /* a ledger in a message */
    bool present;
    struct ledger_shape shape;
    uint64_t epoch;
    uint32_t split_count;
    uint32_t done[SIM_SPLITS_MAX];
};

#define SIM_LEASES_MAX 8
#define SIM_WORKS_MAX 3

/* Where a shard is: its server may have had other addresses before. */
struct sim_place {
    uint8_t node, address;
    uint64_t opening;
};

/* The fields of all requests; each kind uses some. */
struct unary_request {
    enum master_call_kind call;
    uint64_t number; /* of the master's call */
    uint32_t job, shard;
    struct fence fence;
    uint64_t generation, start, version, step, step_limit, ledger_step;
    uint32_t replica_first, replica_end;
    bool hold, slots, idle, forget_pins;
    bool leaves;                                /* HEARTBEAT: of a server that is to end */
    bool is_backup, joins, promote, has_backup; /* OPEN, MEMBERSHIP */
    struct sim_place backup;                    /* likewise: of a shard that has one */
    char keep_pin[64];
    struct consistency consistency;
    struct flat_ledger ledger;
    uint16_t workers[SIM_WORKERS_MAX]; /* names */
    uint32_t worker_count;
    struct lease leases[SIM_LEASES_MAX];
    uint32_t lease_count;
    struct sim_place places[SIM_SHARDS_MAX]; /* ASSIGN, EVALUATE; START when values are given */
    uint32_t shard_count;
    uint32_t planned; /* OPEN, START: the servers of its plan */
    struct sim_era eras[SIM_ERAS_MAX];
    uint32_t era_count;
    char pin_id[64], directory[80];
    struct { /* CHECKPOINT */
        char directory[80];
        uint64_t opened, checksum, version;
    } base;
    uint64_t first, count;
    struct tensor given;      /* UNARY_FILL, UNARY_RECORD */
    struct tensor slot;       /* UNARY_RECORD, of a state, whose values are given */
    struct sim_record record; /* UNARY_RECORD, with */
    struct sim_sums totals[SIM_ROUNDS_MAX];
    bool begins;  /* INSPECT */
    bool encoded; /* INSPECT: with what the source has measured */
    struct {      /* UNARY_TRACE */
        uint64_t id;
        uint32_t node; /* its number in the trace */
        bool told;     /* TRACE_DO_TELL */
        struct trace_ask ask;
    } trace;
    /* of nodes */
    uint16_t name;        /* who asks; 0: nobody knows */
    uint64_t incarnation; /* of who asks, or of the process that the master means */
    struct {
        uint32_t job;
        uint64_t generation; /* a worker's */
        uint64_t opening;    /* a worker's start */
        uint64_t waits_ms;   /* a shard for its backup, */
        uint64_t backup;     /* which is this one, */
        bool follows;        /* and can take over */
        const char *problem; /* of a backup; NULL: none */
    } held[SIM_SHARDS_OF_PS];
    uint32_t held_count;
    struct {
        uint32_t job;
        const char *what;
        uint64_t done, total, age_ms;
    } works[SIM_WORKS_MAX];
    uint32_t work_count;
    uint64_t membership_call;
    uint64_t epoch, sequence, position, dropped, speculated;
    uint32_t split, batch_end;
    struct {
        uint64_t epoch, batches, examples;
    } epochs[SIM_EPOCHS_MAX];
    uint32_t epoch_count;
    uint64_t staleness[JOB_STALENESS_BUCKETS];
    int code;
    char message[128];
};

struct unary_reply {
    int code;
    char message[160];
    uint64_t generation, version, position, examples, pushes, duplicates, dropped;
    struct flat_ledger ledger;
    struct { /* of a shard */
        char id[64];
        uint64_t version;
        bool slots;
    } pins[MASTER_PINS_MAX];
    uint32_t pin_count;
    uint64_t count;    /* EVALUATE: test records, */
    double accuracy;   /* of these */
    uint64_t filled;   /* UNARY_FILL */
    uint64_t received; /* UNARY_RECORD */
    char file[40];
    uint64_t bytes, checksum;
    bool delta;         /* CHECKPOINT */
    uint16_t name;      /* JOIN */
    uint32_t stop_jobs; /* HEARTBEAT: a bit for each */
    uint64_t stop_openings[SIM_SHARDS_OF_PS];
    uint32_t stop_opening_count;
    bool moves; /* HEARTBEAT of one that is to end: it has what goes elsewhere */
    enum master_lease_kind lease_kind;
    struct lease lease;
};

struct unary {
    enum unary_kind kind;
    uint32_t from, to, from_life;
    uint32_t serial; /* of this use of the slot */
    uint32_t refs;   /* events and waiting servers that know it */
    uint32_t next;   /* of free ones */
    bool done;       /* the caller has its answer */
    bool lost;       /* and will hear nothing but a broken connection */
    bool wait_for_ready;
    uint32_t served_life[2]; /* life of the callee that has it; 0: none */
    uint64_t deadline_us;
    struct unary_request req;
    struct unary_reply rsp[2]; /* a request that came twice is answered twice */
};

struct stream { /* of one worker's job and one shard */
    uint32_t worker, worker_life, ps, ps_life;
    uint32_t job, shard;
    uint32_t serial;                /* of the worker's job */
    uint64_t request_us, answer_us; /* when the last one arrives: they stay in order */
    bool broken;                    /* the worker knows */
    bool gone;                      /* the server knows */
    struct sim_inlet *inlet;        /* NULL: all that arrived is read */
    bool nowhere;                   /* nobody listens at this address any more */
};

struct exchange { /* a request or an answer on its way */
    uint32_t stream;
    uint32_t next; /* of a server's that wait, or of free ones */
    uint64_t number, generation, opening;
    uint16_t name;
    struct exchange_request ask; /* bytes that it or the answer points to are in what follows */
    uint64_t elements;           /* of its push */
    uint64_t decision;           /* a bit for each replica */
    struct sim_sums sums;        /* of the answer, or the totals that are asked to be taken */
    /* of an answer */
    struct exchange_answer answer;
    int code;
    char message[120];
    uint64_t version;
    bool has_values;
    bool partial;   /* told early: the rest of the values is still coming */
    bool with_rows; /* rows are to come with what it pulls, or have come */
    struct tensor values;
    struct ids ids;  /* summed in the push; applied in the values */
    uint64_t opened; /* the generation that the shard was opened with */
    /* Rows of tables: which are wanted (for each table how many, and their numbers), their values,
     * or what a push brings of them. */
    uint32_t rows_bytes;
    unsigned char
        along[SIM_TABLE_COUNT * (1 + SIM_KEYS)]; /* which are wanted with what is pulled */
    unsigned char rows[SIM_ROWS_BYTES];          /* the last member */
};

#endif
