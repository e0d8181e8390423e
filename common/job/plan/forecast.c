/* SPDX-License-Identifier: Apache-2.0 */
/* The formulas of docs/scaling.md. A step is a computation, a way to the servers, an update and a
 * way back; each way takes what its slowest part takes. */
#include "job/plan/forecast.h"

#include <math.h>

#include "tensor/half.h"

const struct forecast_costs forecast_costs = {
    .payload = 0.97,
    .worker_byte_s = 0.5e-9,
    .server_byte_s = 0.75e-9,
    .threads = 2,
    .sum_byte_s = 0.06e-9,
    .value_byte_s = 0.2e-9,
    .slot_byte_s = 0.05e-9,
    .exchange_s = 100e-6,
    .early = 0.35,
    .crossing_sync = 4,
    .crossing_async = 8,
};

const char *forecast_part_name(enum forecast_part part)
{
    static const char *const NAMES[FORECAST_PART_COUNT] = {"compute", "worker_link", "server_link",
                                                           "server_cpu", "latency"};
    return NAMES[part];
}

const char *forecast_part_text(enum forecast_part part)
{
    static const char *const TEXTS[FORECAST_PART_COUNT] = {
        "the workers' computation", "each worker's link", "the servers' links",
        "the servers' processors", "latency"};
    return TEXTS[part];
}

void forecast_job_of(const struct plan *plan, const struct job_spec *spec, struct forecast_job *job)
{
    uint64_t elements = 0, fullest = 0, largest = 0;
    for (uint32_t s = 0; s < plan->shard_count; s++) {
        elements += plan->shard_elements[s];
        fullest = plan->shard_elements[s] > fullest ? plan->shard_elements[s] : fullest;
    }
    for (size_t v = 0; v < plan->variable_count; v++) {
        uint64_t n = shape_count(&plan->variables[v].shape);
        largest = n > largest ? n : largest;
    }
    const double all = elements == 0 ? 1 : (double)elements;
    const struct training_spec *t = &spec->training;
    *job = (struct forecast_job){
        .workers = (uint64_t)spec->cluster.workers.max,
        .servers = plan->shard_count,
        .batch_size = (uint64_t)t->batch_size,
        .push_bytes =
            (double)elements * (double)value_type_bytes((enum value_type)t->wire_gradients),
        .pull_bytes =
            (double)elements * (double)value_type_bytes((enum value_type)t->wire_parameters),
        .value_bytes = (double)elements * sizeof(float),
        .fullest = (double)fullest / all,
        .largest = (double)largest / all,
        .slots = (double)spec->update.rule->slot_count,
    };
    consistency_of(spec, &job->consistency);
}

/* ---- one way of a message, or of a message from every worker at once ---- */

/* Seconds of each who may limit it. */
struct way {
    double worker, link, cpu;
};

static double link_byte_s(double bits)
{
    return bits > 0 ? 8 / (bits * forecast_costs.payload) : 0;
}

/* @senders workers exchange @bytes each with all servers. */
static struct way way_of(const struct forecast_job *j, double bytes, double senders)
{
    const struct forecast_costs *c = &forecast_costs;
    const double at_server = bytes * j->fullest * senders;
    const double cpu = at_server * c->server_byte_s / c->threads;
    struct way w = {
        .worker = bytes * fmax(link_byte_s(j->worker_link), c->worker_byte_s / c->threads),
        .link = at_server * link_byte_s(j->server_link),
        .cpu = cpu,
    };
    if (j->processors > 0) { /* where all nodes share the processors, so do their messages */
        const double both = bytes * senders * (c->server_byte_s + c->worker_byte_s);
        w.cpu = fmax(w.cpu, both / j->processors);
    }
    return w;
}

static double server_of(const struct way *w)
{
    return fmax(w->link, w->cpu);
}

/* The time of two works that meet by chance: more than the larger one; @exponent 0: they do not
 * meet. */
static double meet(double a, double b, double exponent)
{
    const double more = fmax(a, b), less = fmin(a, b);
    return exponent == 0 || more == 0 ? more
                                      : more * pow(1 + pow(less / more, exponent), 1 / exponent);
}

/* Attributes @seconds to the slowest part of @w. */
static void attribute(const struct way *w, double seconds, double *parts)
{
    if (w->worker >= server_of(w)) {
        parts[FORECAST_WORKER_LINK] += seconds;
    } else {
        parts[w->link >= w->cpu ? FORECAST_SERVER_LINK : FORECAST_SERVER_CPU] += seconds;
    }
}

/* ---- what both modes have in common ---- */

static double update_s(const struct forecast_job *j)
{
    return j->value_bytes * j->fullest *
           (forecast_costs.value_byte_s + j->slots * forecast_costs.slot_byte_s);
}

/* Computations of as many workers as there are, beside each other. */
static double compute_s(const struct forecast_job *j, double workers)
{
    const bool shared = j->processors > 0 && workers > j->processors;
    return j->batch_s * (shared ? workers / j->processors : 1);
}

/* The time that computing hides: gradients leave while the computation goes back through the
 * layers, and it begins when the first parameters have come; a single large variable has to come
 * whole. */
static double hidden_s(const struct forecast_job *j, double compute, double there, double back)
{
    return (1 - j->largest) * (fmin(compute * 2 / 3, there) + fmin(compute / 3, back));
}

static double rest_s(const struct forecast_job *j)
{
    return forecast_costs.exchange_s + j->round_trip_s;
}

/* Shrinks the ways by the part that computing hides. */
static void shrink_ways(double *parts, double hidden)
{
    const double ways = parts[FORECAST_WORKER_LINK] + parts[FORECAST_SERVER_LINK];
    const double keep = ways > 0 ? fmax(0, 1 - hidden / ways) : 1;
    parts[FORECAST_WORKER_LINK] *= keep;
    parts[FORECAST_SERVER_LINK] *= keep;
}

static void finish(const struct forecast_job *j, double batches_per_second, struct forecast *out)
{
    out->step_s = 0;
    out->limit = FORECAST_COMPUTE;
    for (int p = 0; p < FORECAST_PART_COUNT; p++) {
        out->step_s += out->part_s[p];
        out->limit = out->part_s[p] > out->part_s[out->limit] ? (enum forecast_part)p : out->limit;
    }
    out->examples_per_second = batches_per_second * (double)j->batch_size;
}

/* ---- sync ---- */

static void predict_sync(const struct forecast_job *j, struct forecast *out)
{
    const uint64_t replicas = j->consistency.replicas;
    const double workers = (double)(j->workers < replicas ? j->workers : replicas);
    const double each = ceil((double)replicas / workers);
    const double exponent = workers > 1 && j->servers > 1 ? forecast_costs.crossing_sync : 0;
    const struct way push = way_of(j, j->push_bytes, workers);
    const struct way pull = way_of(j, j->pull_bytes, workers);
    const double there = meet(push.worker, server_of(&push), exponent);
    const double back = meet(pull.worker, server_of(&pull), exponent);
    const double compute = each * compute_s(j, workers);
    const double sums = (workers - 1) * j->push_bytes * j->fullest * forecast_costs.sum_byte_s;
    double *parts = out->part_s;
    parts[FORECAST_COMPUTE] = compute;
    attribute(&push, there, parts);
    attribute(&pull, back - forecast_costs.early * fmax(0, server_of(&pull) - pull.worker), parts);
    shrink_ways(parts, hidden_s(j, compute, there, back));
    parts[FORECAST_SERVER_CPU] += sums + update_s(j);
    parts[FORECAST_LATENCY] = rest_s(j);
    finish(j, 0, out);
    const double steps = 1 / out->step_s;
    out->examples_per_second = steps * (double)replicas * (double)j->batch_size;
    out->server_link_busy = fmax(push.link, pull.link) * steps;
    out->server_cpu_busy =
        ((push.cpu + pull.cpu) * forecast_costs.threads + sums + update_s(j)) * steps;
    out->worker_link_busy = fmax(push.worker, pull.worker) * steps;
}

/* ---- async and bounded ---- */

/* Every worker goes round by itself; together they get through no more than what the busiest part
 * of the servers does. */
static void predict_async(const struct forecast_job *j, struct forecast *out)
{
    const struct consistency *c = &j->consistency;
    const double workers = (double)j->workers;
    const double push_every = c->push_every, pull_every = push_every * c->pull_every;
    const struct way push = way_of(j, j->push_bytes / push_every, 1);
    const struct way pull = way_of(j, j->pull_bytes / pull_every, 1);
    const double there = fmax(push.worker, server_of(&push));
    const double back = fmax(pull.worker, server_of(&pull));
    const double update = update_s(j) / push_every, rest = rest_s(j) / push_every;
    const double compute = compute_s(j, workers);
    double *parts = out->part_s;
    parts[FORECAST_COMPUTE] = compute;
    attribute(&push, there, parts);
    attribute(&pull, back, parts);
    parts[FORECAST_SERVER_CPU] += update;
    parts[FORECAST_LATENCY] = rest;
    double hidden = c->overlap ? fmin(compute, there + back) : hidden_s(j, compute, there, back);
    shrink_ways(parts, hidden);
    double alone = 0;
    for (int p = 0; p < FORECAST_PART_COUNT; p++) {
        alone += parts[p];
    }
    const double link = fmax(push.link, pull.link), cpu = push.cpu + pull.cpu + update;
    const double exponent = j->workers > 1 ? forecast_costs.crossing_async : 0;
    const double batch_s = meet(alone / workers, fmax(link, cpu), exponent);
    const enum forecast_part server = link >= cpu ? FORECAST_SERVER_LINK : FORECAST_SERVER_CPU;
    parts[server] += fmax(0, batch_s * workers - alone);
    finish(j, 1 / batch_s, out);
    out->limit = fmax(link, cpu) > alone / workers ? server : out->limit;
    out->server_link_busy = link / batch_s;
    out->server_cpu_busy = ((push.cpu + pull.cpu) * forecast_costs.threads + update) / batch_s;
    out->worker_link_busy = fmax(push.worker, pull.worker) / (batch_s * workers);
}

static void predict(const struct forecast_job *j, struct forecast *out)
{
    *out = (struct forecast){.held_up = 1};
    if (j->consistency.mode == TRAINING_SYNC) {
        predict_sync(j, out);
    } else {
        predict_async(j, out);
    }
}

/* Servers that take nothing from anybody: as many as there may be. */
static double without_servers_s(const struct forecast_job *j)
{
    struct forecast_job free = *j;
    struct forecast s;
    free.server_link = 0;
    free.fullest = 0;
    predict(&free, &s);
    return s.step_s;
}

void forecast_predict(const struct forecast_job *job, struct forecast *out)
{
    predict(job, out);
    out->held_up = out->step_s / without_servers_s(job);
}

uint64_t forecast_servers(const struct forecast_job *job)
{
    const double enough = without_servers_s(job) * FORECAST_HELD_UP;
    uint64_t low = 1, high = PLAN_SHARDS_MAX + 1; /* the answer lies from low to high */
    while (low < high) {
        struct forecast_job j = *job;
        struct forecast s;
        j.servers = (low + high) / 2;
        j.fullest = 1 / (double)j.servers;
        predict(&j, &s);
        if (s.step_s <= enough) {
            high = j.servers;
        } else {
            low = j.servers + 1;
        }
    }
    return low > PLAN_SHARDS_MAX ? 0 : low;
}
