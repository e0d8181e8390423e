/* SPDX-License-Identifier: Apache-2.0 */
/* How fast a job is going to be, and what limits it: measured costs of bytes, messages and updates
 * put into a few formulas for any number of workers and servers. docs/scaling.md has the reasons
 * and says how far the formulas were from what was measured. Pure functions of plain data. */
#ifndef GRADUS_JOB_PLAN_FORECAST_H
#define GRADUS_JOB_PLAN_FORECAST_H

#include "job/plan/plan.h"
#include "job/progress/consistency.h"

/* Costs that were measured, the same for every job. */
struct forecast_costs {
    double payload;       /* share of a link's bits; the rest is headers */
    double worker_byte_s; /* processor time of a worker for a byte that it sends or receives */
    double server_byte_s; /* of a server */
    double threads;       /* of a worker and of a server that send and receive */
    double sum_byte_s;    /* to add a byte of a gradient to another one: on one thread of a shard */
    double value_byte_s;  /* to update a byte of values */
    double slot_byte_s;   /* and of each slot */
    double exchange_s;    /* a message there and back besides the network: threads that wake */
    double early;         /* part of the time in which a server still answers some of its workers
                             that those it has answered use already */
    double crossing_sync; /* exponents: several senders with several receivers meet by chance, so */
    double crossing_async; /* two limits of nearly the same size cost more than the larger one */
};
extern const struct forecast_costs forecast_costs;

/* A job on some machines. */
struct forecast_job {
    struct consistency consistency; /* partial and speculative steps are taken for complete ones */
    uint64_t workers, servers;      /* ≥ 1 */
    uint64_t batch_size;
    double push_bytes, pull_bytes; /* of the whole model, as it travels */
    double value_bytes;            /* of the whole model, as it is updated */
    double fullest; /* part of the model that the server with the most of it has: ≥ 1 / servers */
    double largest; /* part that the largest variable is */
    double slots;   /* of the update rule */
    double batch_s; /* a worker's computation of one batch */
    double worker_link, server_link; /* bits a second, each way; 0: without a limit */
    double round_trip_s;             /* of the network */
    /* processors that all of these nodes share; 0: each has a machine of its own */
    double processors;
};

/* The parts to which the time of a step is attributed. */
enum forecast_part {
    FORECAST_COMPUTE,
    FORECAST_WORKER_LINK, /* its bits, or the worker's processor time for them */
    FORECAST_SERVER_LINK,
    FORECAST_SERVER_CPU, /* taking in, adding up, updating, sending */
    FORECAST_LATENCY,
    FORECAST_PART_COUNT
};
const char *forecast_part_name(enum forecast_part part); /* "compute" */
const char *forecast_part_text(enum forecast_part part); /* "the servers' links" */

struct forecast {
    double step_s; /* sync: a global step; else a batch of one worker, from begin to begin */
    double part_s[FORECAST_PART_COUNT]; /* add up to it */
    /* the largest part; in async, if workers wait for a server that is always busy, the largest
     * part of that server */
    enum forecast_part limit;
    double examples_per_second; /* of the whole cluster */
    /* How busy the fullest server and a worker are: seconds in a second, of one direction of a
     * link, and processor time, of one thread or several. */
    double server_link_busy, server_cpu_busy, worker_link_busy;
    double held_up; /* step_s over that with unlimited servers: 1 when servers hold up no worker */
};

/* Fills @job but for batch_s, links, round trip and processors, which are the machines'. */
void forecast_job_of(const struct plan *plan, const struct job_spec *spec,
                     struct forecast_job *job);
void forecast_predict(const struct forecast_job *job, struct forecast *out);
/* Servers hold up workers when a step takes this many times as long because of them. */
#define FORECAST_HELD_UP 1.25
/* The least number of servers, with equal parts, that would not; 0: none up to PLAN_SHARDS_MAX. */
uint64_t forecast_servers(const struct forecast_job *job);

#endif
