/* SPDX-License-Identifier: Apache-2.0 */
/* A client of the exchange stream. */
#ifndef GRADUS_TESTS_EXCHANGE_RIG_H
#define GRADUS_TESTS_EXCHANGE_RIG_H

#include "ps_rig.h"

#include "host/shared_memory.h"
#include "wire/wire_values.h"

#define EXCHANGES 16
#define GRADIENT_ROWS_MAX 17500
_Static_assert(ROWS <= GRADIENT_ROWS_MAX, "`gradient` has room for them");

/* Of every push: ELEMENTS. */
extern float gradient[];

/* A client of one stream: what came back, by number of exchange. */
struct answer {
    unsigned messages;
    int code;
    char message[512];
    Gradus__V1__PushResult push;
    Gradus__V1__WireType type;
    uint64_t version, total, received;
    uint64_t generation, staleness;
    bool has_decision;
    uint64_t decision_step;
    unsigned decision; /* of the first 8 replicas */
    uint32_t waited_us, applied_us;
    bool has_spare, spare_given;
    uint32_t spare_replica, spare_wait_ms;
    bool has_sums, sums_known;
    uint64_t sums_step;
    uint32_t sums_round;
    struct buf sums;
    bool shared_memory_open, tables_memory_open;
    uint64_t in_block;
    uint64_t rows, rows_received; /* floats of rows that come with what is pulled */
    Gradus__V1__WireType rows_type;
    uint64_t rows_in_block;
    bool complete;
    float *values;
    float of_rows[64];
};

struct client {
    struct rpc_stream *stream;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct answer answers[EXCHANGES];
    bool over;
    int code;
};

/* Open a stream to the server of @rig. */
void exchange_open(struct client *c, struct ps_rig *rig);
/* Until the stream has ended. */
void wait_over(struct client *c);
void exchange_close(struct client *c);
/* Until the answer is complete, or the stream has ended. */
struct answer *wait_answer(struct client *c, uint64_t exchange);
/* The number of an exchange may be used again when its answer is there. */
void forget_answer(struct client *c, uint64_t exchange);

/* One message. @first: with the shard and what is asked for. */
struct chunk {
    uint64_t exchange;
    char *job;
    uint32_t shard;
    uint64_t generation; /* 0: 1 */
    char *worker;        /* NULL: "w0" */
    bool first;
    bool push, pull;
    bool nothing; /* it does not say what it is */
    uint64_t step, examples;
    uint32_t lo, hi;
    uint32_t split, batch, batch_end;
    uint64_t epoch, base_version;
    bool decided, is_spare;
    uint64_t offset, total, floats;
    Gradus__V1__WireType type, pull_type;
    Gradus__V1__Pull__Kind kind;
    uint64_t version;
    char *pin_id; /* the exchange is a pull of this pin */
    bool has_decision, has_spare;
    uint8_t *decision; /* of `step`, as `spare` is */
    size_t decision_bytes;
    bool has_sums, has_totals; /* of `step` and `round` */
    uint32_t round;
    struct buf totals;
    double *norms;
    size_t norm_count;
    const struct shared_memory *offer; /* NULL: none */
    uint32_t gradient_block, values_block;
};

void send_chunk(struct client *c, const struct chunk *k);
/* A push of a node in chunks of @size floats, with a pull of the next version when @pull. */
void send_push(struct client *c, char *job, uint64_t exchange, uint64_t step, uint32_t lo,
               uint32_t hi, uint64_t size, bool pull);
/* One message and its answer. */
struct answer *exchange(struct client *c, const struct chunk *k);
/* The answer to it is an error of @code that says @says. */
void expect_refusal(struct client *c, const struct chunk *k, int code, const char *says);

#endif
