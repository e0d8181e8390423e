/* SPDX-License-Identifier: Apache-2.0 */
/* A parameter server that does what it is told, right or wrong, behind real gRPC. */
#ifndef GRADUS_TESTS_UNIT_PS_CLIENT_PS_FAKE_H
#define GRADUS_TESTS_UNIT_PS_CLIENT_PS_FAKE_H

#include "support/ps_methods.h"
#include "support/test.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "gradus/v1/ps.pb-c.h"
#include "ps_client/ps_client.h"
#include "rpc/rpc.h"
#include "host/shared_memory.h"
#include "support/held_port.h"
#include "wire/wire_values.h"

#define SHARDS 2
#define FAKE_SERVERS_MAX 2 /* at a time */
#define ANSWERS_MAX 64
#define ANSWER_CHUNK 100001 /* elements; no divisor of anything here */
#define ROWS 701
#define COLUMNS 1000
#define VERSION 40 /* of shard 0; shard 1 is one ahead */
#define BIASES 7
#define BIAS_AT (ROWS * COLUMNS + 13) /* in the flat arrays, behind padding */
#define FLAT_COUNT (BIAS_AT + BIASES)
#define ROW_TABLES 2
#define ROW_KEYS_MAX 600000
static const size_t ROW_DIMS[ROW_TABLES] = {2, 3}; /* a row of key k: k, k + 1, … */

enum script {
    SCRIPT_RIGHT,
    SCRIPT_REFUSE,           /* with `code` */
    SCRIPT_BREAK,            /* the stream ends instead of an answer */
    SCRIPT_NO_VALUES,        /* well, but nothing comes */
    SCRIPT_TOTAL,            /* of another shard */
    SCRIPT_GAP,              /* a chunk is left out */
    SCRIPT_TOO_MANY,         /* more than the total */
    SCRIPT_RAGGED,           /* half a float */
    SCRIPT_OTHER_FIRST,      /* an answer that nobody asked for comes first */
    SCRIPT_UNREAD,           /* the stream is not read any more */
    SCRIPT_TORN,             /* the second chunk is of another version */
    SCRIPT_OLD,              /* of the version before */
    SCRIPT_OTHER_ANSWER,     /* of a spare replica, to training */
    SCRIPT_NO_SPARE,         /* no word of a spare replica */
    SCRIPT_LONG,             /* a decision that is too long */
    SCRIPT_EMPTY,            /* a decision about nobody, sums of nothing */
    SCRIPT_NO_SUMS,          /* no word of sums */
    SCRIPT_OTHER_SUMS,       /* those of another round */
    SCRIPT_OTHER_TYPE,       /* floats, whatever was asked for */
    SCRIPT_OVER,             /* of a step that is long over */
    SCRIPT_NO_SHARED_MEMORY, /* none are opened */
    SCRIPT_BLOCK,            /* the values are in a block that was not named */
    SCRIPT_OTHER_ROWS,       /* with what is pulled come more rows than were asked for */
    SCRIPT_ROWS_BLOCK,  /* the rows are in a block that was not named, or too many are in one */
    SCRIPT_BREAK_EARLY, /* the stream ends with the first message of a push */
};

struct fake {
    struct rpc_server *server;
    struct held_port
        ports[FAKE_SERVERS_MAX]; /* of this one and those before; nobody else gets them */
    size_t port_count;
    struct plan plan;
    struct ps_client *client;
    struct loop *loop;
    uint64_t offsets[2];
    float *gradient, *values; /* flat */

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    enum script script;
    int32_t code;
    float *shards[SHARDS];   /* pushed last, pulled next */
    uint64_t pushed[SHARDS]; /* elements of the last push */
    unsigned messages[SHARDS];
    uint64_t offset[SHARDS];             /* of the last message */
    Gradus__V1__ExchangeRequest heard;   /* the last first message; its parts follow */
    Gradus__V1__Training heard_training; /* zeroed when it is something else */
    Gradus__V1__Push heard_push;
    Gradus__V1__Pull heard_pull;
    uint64_t heard_step; /* of the decision, the request for a spare replica, sums or totals */
    uint32_t heard_round;
    double heard_norm; /* the last one */
    size_t heard_bytes;
    uint8_t heard_replicas[EXCHANGE_DECISION_BYTES_MAX];
    uint64_t keys[ROW_KEYS_MAX]; /* of the last request for rows, */
    size_t key_count;
    uint32_t counts[ROW_TABLES]; /* so many of each table */
    uint64_t rows_version;
    Gradus__V1__WireType rows_type; /* in which they are asked for */
    unsigned char tables[1 << 20];  /* what the last push brought of tables */
    size_t tables_bytes;            /* keys of rows that come with a pull are behind it */
    bool no_rows;                   /* none come with a pull */
    int32_t result;                 /* of pushes */
    uint64_t opening;               /* that was named last */
    uint64_t generation;            /* of the last Fill */
    unsigned fills[SHARDS];         /* so many came */
    struct ps_client_filled filled[ANSWERS_MAX];
    size_t filled_count;
    unsigned streams;
    char peer[128]; /* of the last one */
    struct ps_answer answers[ANSWERS_MAX];
    uint8_t decision[EXCHANGE_DECISION_BYTES_MAX]; /* of the last answer */
    char sums[16];
    size_t answered;
    struct shared_memory *shared_memory[SHARDS], *tables_memory[SHARDS];
    unsigned gradient_blocks, values_blocks; /* named by requests */
    unsigned tables_blocks, rows_blocks;     /* likewise, of those for rows */
    uint32_t rows_block;                     /* of the exchange that is served; 0: none */
    /* NULL, or called under the lock before a pull into value block @block is answered. */
    void (*before_answer)(struct fake *f, uint32_t shard, uint32_t block);
};

/* Those of the server; each has a `struct fake` as its service. */
extern const struct rpc_method ps_fake_methods[];
extern const size_t ps_fake_method_count;

#endif
