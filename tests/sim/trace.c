/* SPDX-License-Identifier: Apache-2.0 */
/* The run as text. */
#include "sim/sim.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void print_line(void *ctx, const char *line)
{
    fprintf(ctx == NULL ? stdout : ctx, "%s\n", line);
}

void (*trace_line)(void *ctx, const char *line) = print_line;
void *trace_ctx;

void trace(struct world *w, uint32_t node, const char *fmt, ...)
{
    static const char *const ROLES[] = {"master", "ps", "worker"};
    char line[1400];
    const struct sim_node *n = &w->nodes[node];
    uint32_t number = n->role == ROLE_WORKER ? node - w->schedule->ps_count : node;
    char who[24];
    snprintf(who, sizeof who, n->role == ROLE_MASTER ? "%s" : "%s%u", ROLES[n->role], number);
    int used = snprintf(line, sizeof line, "%9.3f %-8s ", (double)w->now_us / 1000.0, who);
    va_list args;
    va_start(args, fmt);
    vsnprintf(line + used, sizeof line - (size_t)used, fmt, args);
    va_end(args);
    trace_line(trace_ctx, line);
}

struct text {
    char *at;
    size_t left;
};

__attribute__((format(printf, 2, 3))) static void put(struct text *t, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(t->at, t->left, fmt, args);
    va_end(args);
    size_t used = n < 0 || (size_t)n >= t->left ? t->left - 1 : (size_t)n;
    t->at += used;
    t->left -= used;
}

static void put_node(const struct world *w, struct text *t, uint32_t node)
{
    const struct sim_node *n = &w->nodes[node];
    if (n->role == ROLE_MASTER) {
        put(t, "master");
    } else if (n->role == ROLE_PS) {
        put(t, "ps%u", node);
    } else {
        put(t, "worker%u", node - w->schedule->ps_count);
    }
}

static void put_ledger(struct text *t, const struct flat_ledger *l)
{
    if (!l->present) {
        return;
    }
    put(t, " ledger %llu:", (unsigned long long)l->epoch);
    for (uint32_t i = 0; i < l->split_count; i++) {
        put(t, "%s%u", i == 0 ? "" : ",", l->done[i]);
    }
}

static void put_call(const struct world *w, struct text *t, const struct unary_request *q)
{
    static const char *const MODES[] = {"sync", "async", "bounded"};
    put(t, "%s", master_call_name(q->call));
    switch (q->call) {
    case MASTER_CALL_OPEN:
    case MASTER_CALL_MEMBERSHIP:
        put(t, " shard %u generation %llu", q->shard, (unsigned long long)q->generation);
        if (q->ledger.present) {
            put(t, " version %llu %s", (unsigned long long)q->version, MODES[q->consistency.mode]);
        }
        put_ledger(t, &q->ledger);
        put(t, " workers");
        for (uint32_t i = 0; i < q->worker_count; i++) {
            put(t, " %s", w->names[q->workers[i]]);
        }
        put(t, "%s%s", q->directory[0] != '\0' ? " restore " : "", q->directory);
        put(t, "%s%s%s%s", q->is_backup ? " as a backup" : "", q->joins ? " that joins" : "",
            q->promote ? " promote" : "", q->has_backup ? " with a backup" : "");
        break;
    case MASTER_CALL_ASSIGN:
        put(t, " generation %llu", (unsigned long long)q->generation);
        if (q->hold) {
            put(t, " hold");
        }
        put(t, " %s", MODES[q->consistency.mode]);
        if (q->consistency.mode == TRAINING_SYNC) {
            put(t, " replicas [%u,%u) of %u steps [%llu,%llu) ledger step %llu", q->replica_first,
                q->replica_end, q->consistency.replicas, (unsigned long long)q->step,
                (unsigned long long)q->step_limit, (unsigned long long)q->ledger_step);
        }
        put_ledger(t, &q->ledger);
        for (uint32_t i = 0; i < q->lease_count; i++) {
            put(t, " lease %llu:%u", (unsigned long long)q->leases[i].epoch, q->leases[i].split);
        }
        break;
    case MASTER_CALL_PIN:
    case MASTER_CALL_UNPIN:
    case MASTER_CALL_CHECKPOINT:
        put(t, " shard %u generation %llu %s", q->shard, (unsigned long long)q->generation,
            q->pin_id);
        break;
    case MASTER_CALL_CLOSE:
        put(t, " shard %u generation %llu", q->shard, (unsigned long long)q->generation);
        break;
    case MASTER_CALL_EVALUATE:
        put(t, " %s records %llu+%llu", q->pin_id, (unsigned long long)q->first,
            (unsigned long long)q->count);
        break;
    default:
        break;
    }
}

static void put_record(struct text *t, const struct unary_request *q)
{
    static const char *const KINDS[] = {"update", "decision", "fill", "pin", "unpin", "membership"};
    const struct shard_record *r = &q->record.what;
    put(t, "Record %llu of shard %u: %s, version %llu generation %llu",
        (unsigned long long)r->number, q->shard, KINDS[r->kind], (unsigned long long)r->version,
        (unsigned long long)r->generation);
}

const char *trace_unary(const struct world *w, const struct unary *u, char *out, size_t n)
{
    static const char *const NAMES[UNARY_KIND_COUNT] = {
        "",           "Join",        "Heartbeat",      "Leave",
        "LeaseSplit", "ReportSplit", "ReportProgress", "ReportFailure"};
    if (u->kind == UNARY_FILL) {
        snprintf(out, n, "Fill shard %u generation %llu elements %llu+%llu", u->req.shard,
                 (unsigned long long)u->req.generation, (unsigned long long)u->req.first,
                 (unsigned long long)u->req.count);
        return out;
    }
    static const char *const ASKS[] = {"clock", "record", "take"};
    struct text t = {out, n};
    const struct unary_request *q = &u->req;
    put_node(w, &t, u->from);
    put(&t, "→");
    put_node(w, &t, u->to);
    put(&t, " ");
    if (u->kind == UNARY_RECORD) {
        put_record(&t, q);
        return out;
    }
    if (u->kind == UNARY_CALL) {
        put_call(w, &t, q);
        return out;
    }
    if (u->kind == UNARY_TRACE) {
        put(&t, "Trace %llu %s", (unsigned long long)q->trace.id, ASKS[q->trace.ask.kind]);
        return out;
    }
    put(&t, "%s", NAMES[u->kind]);
    if (u->kind == UNARY_LEASE) {
        put(&t, " generation %llu held", (unsigned long long)q->generation);
        for (uint32_t i = 0; i < q->lease_count; i++) {
            put(&t, " %llu:%u", (unsigned long long)q->leases[i].epoch, q->leases[i].split);
        }
    } else if (u->kind == UNARY_REPORT_SPLIT) {
        put(&t, " generation %llu %llu:%u up to %u", (unsigned long long)q->generation,
            (unsigned long long)q->epoch, q->split, q->batch_end);
    } else if (u->kind == UNARY_REPORT_PROGRESS) {
        put(&t, " generation %llu sequence %llu position %llu%s", (unsigned long long)q->generation,
            (unsigned long long)q->sequence, (unsigned long long)q->position,
            q->idle ? " idle" : "");
    } else if (u->kind == UNARY_REPORT_FAILURE) {
        put(&t, " %s", q->message);
    }
    return out;
}

static void put_pull(struct text *t, const struct exchange_request *q)
{
    static const char *const PULLS[] = {"latest", "version", "at least"};
    if (q->kind == EXCHANGE_PINNED) {
        put(t, " pull pinned 0%s", q->pin_id);
    } else if (q->has_pull) {
        put(t, " pull %s %llu%s", PULLS[q->pull.kind], (unsigned long long)q->pull.version,
            q->pull.progress ? " progress" : "");
    }
}

static void put_request(struct text *t, const struct exchange *x)
{
    const struct exchange_request *q = &x->ask;
    const struct exchange_push *p = &q->push;
    put(t, " generation %llu", (unsigned long long)x->generation);
    if (q->has_push) {
        put(t, " push step %llu [%u,%u) %llu:%u.%u-%u base %llu examples %llu%s%s",
            (unsigned long long)p->step, p->replica_first, p->replica_end,
            (unsigned long long)p->epoch, p->split, p->batch, p->batch_end,
            (unsigned long long)p->base_version, (unsigned long long)p->examples,
            p->decided ? " decided" : "", p->spare ? " spare" : "");
    }
    put_pull(t, q);
    if (q->idle) {
        put(t, " idle");
    }
    if (q->has_decision) {
        put(t, " decision %llu:%llx", (unsigned long long)q->decision.step,
            (unsigned long long)x->decision);
    }
    if (q->kind == EXCHANGE_SPARE) {
        put(t, " spare? step %llu", (unsigned long long)q->spare_step);
    }
}

static void put_answer(struct text *t, const struct exchange *x)
{
    static const char *const RESULTS[] = {"",           " accepted", " applied",
                                          " duplicate", " stale",    " dropped"};
    const struct exchange_answer *a = &x->answer;
    if (x->code != 0) {
        put(t, ": %s, %s", err_code_name(x->code), x->message);
        return;
    }
    put(t, ":%s version %llu progress %u%s", RESULTS[a->train.push], (unsigned long long)x->version,
        a->train.progress, x->has_values ? " values" : "");
    if (a->decision.bytes > 0) {
        put(t, " decision %llu:%llx", (unsigned long long)a->decision.step,
            (unsigned long long)x->decision);
    }
    if (a->kind == EXCHANGE_SPARE) {
        put(t, a->spare.given ? " spare %u" : " no spare, wait %u",
            a->spare.given ? a->spare.replica : a->spare.wait_ms);
    }
}

const char *trace_exchange(const struct world *w, const struct exchange *x, char *out, size_t n)
{
    struct text t = {out, n};
    const struct stream *s = &w->streams[x->stream];
    put_node(w, &t, s->worker);
    put(&t, "→");
    put_node(w, &t, s->ps);
    put(&t, " exchange %llu shard %u", (unsigned long long)x->number, s->shard);
    if (x->name != 0) {
        put_request(&t, x);
    } else {
        put_answer(&t, x);
    }
    return out;
}

void schedule_print(const struct sim_schedule *s, void (*line)(void *ctx, const char *text),
                    void *ctx)
{
    char text[400];
    const struct sim_knobs *k = &s->knobs;
    snprintf(text, sizeof text, "1 master, %u ps, %u workers, %u spare; quiet at %llu ms",
             s->ps_count, s->worker_count, s->spare_count,
             (unsigned long long)(s->quiet_us / SIM_MS));
    line(ctx, text);
    snprintf(text, sizeof text,
             "delay %u us, tail %u/1e6 %u us, loss %u, twice %u, break %u, late %u/1e6 %u us, "
             "compute %u us, early "
             "%u/1e6 %u us lost %u, load %u us, file %u us, readers %u/1e6 %u us at most %u%s",
             k->delay_us, k->tail_part, k->tail_us, k->loss_part, k->twice_part, k->break_part,
             k->late_part, k->late_us, k->compute_us, k->early_part, k->early_us, k->lost_part,
             k->load_us, k->file_us, k->reader_part, k->reader_us, k->readers_max,
             k->skew ? ", clocks differ" : "");
    line(ctx, text);
    snprintf(
        text, sizeof text,
        "memory: full %u/1e6, room for %u workers, modes %u/1e6; refused %u/1e6, moved %u/1e6; "
        "servers have %u ms, beats %u ms",
        k->full_part, k->room_workers, k->full_modes_part, k->refused_part, k->moved_part,
        k->ps_timeout_ms, k->beat_ms);
    line(ctx, text);
    if (s->fair.on) {
        snprintf(text, sizeof text,
                 "of an owner: %u running, %u workers, %u bytes; preemption %s, after %u ms",
                 s->fair.running_max, s->fair.workers_max, s->fair.memory_max,
                 s->fair.preemption ? "on" : "off", s->fair.preempt_after_ms);
        line(ctx, text);
    }
    if (k->memory_tight) {
        snprintf(text, sizeof text,
                 "memory for gradients: reserves and %u more, each in %u us, refused %u/1e6",
                 k->memory_more, k->memory_us, k->memory_refused_part);
        line(ctx, text);
    }
    for (uint32_t i = 0; i < s->job_count; i++) {
        snprintf(text, sizeof text, "job %u at %llu ms: %u records, %u to test", i,
                 (unsigned long long)(s->jobs[i].submit_us / SIM_MS), s->jobs[i].records,
                 s->jobs[i].test_records);
        line(ctx, text);
        const char *training = strstr(s->jobs[i].text, "training:");
        line(ctx, training == NULL ? s->jobs[i].text : training);
    }
    for (uint32_t i = 0; i < s->fault_count; i++) {
        const struct sim_fault *f = &s->faults[i];
        if (!f->off) {
            snprintf(
                text, sizeof text, "%10.3f to %10.3f ms %-10s node %u other %u number %u %s %s %s",
                (double)f->at_us / 1000.0, (double)f->until_us / 1000.0, sim_fault_names[f->kind],
                f->node, f->other, f->number, f->change[0], f->change[1], f->change[2]);
            line(ctx, text);
        }
    }
}
