/* SPDX-License-Identifier: Apache-2.0 */
/* A shard: how it is opened, the actions of its core, and its end. */
#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "os/chrono.h"
#include "base/mem.h"
#include "job/plan/plan_memory.h"
#include "ps/rpc/ps_memory.h"
#include "ps/rpc/ps_rows.h"
#include "ps/rpc/ps_standby.h"
#include "ps/rpc/ps_average.h"
#include "ps/rpc/ps_shell.h"
#include "wire/wire.h"

/* ---- making one ---- */

static int parse_spec(const Gradus__V1__OpenShardRequest *r, struct job_spec *spec, struct err *err)
{
    size_t n = strnlen(r->text, PS_JOB_TEXT_BYTES_MAX + 1);
    if (n > PS_JOB_TEXT_BYTES_MAX) {
        return err_set(err, ERR_INVALID, "the job file has more than %u bytes",
                       PS_JOB_TEXT_BYTES_MAX);
    }
    struct diags diags = {0};
    int rc = job_spec_parse(r->text, n, "job", NULL, 0, spec, &diags);
    if (rc != 0) {
        struct buf text = {0};
        diags_format(&diags, &text);
        rc = err_set(err, ERR_INVALID, "%s", buf_str(&text));
        buf_release(&text);
        job_spec_release(spec);
        *spec = (struct job_spec){0};
    }
    diags_release(&diags);
    return rc;
}

static int read_request(struct ps_shard *s, const Gradus__V1__OpenShardRequest *r, struct err *err)
{
    if ((r->is_backup && r->backup != NULL) || (r->joins && !r->is_backup)) {
        return err_set(err, ERR_INVALID, "%s",
                       r->is_backup ? "a backup has no backup" : "only a backup joins");
    }
    int rc = wire_id_check(r->shard->job, "job", err);
    rc = rc != 0 ? rc : parse_spec(r, &s->spec, err);
    rc = rc != 0 ? rc : wire_plan_from_proto(r->plan, &s->plan, err);
    rc = rc != 0 ? rc : plan_check_shards(&s->plan, s->spec.model.table_count, err);
    rc = rc != 0 ? rc : wire_ledger_from_proto(r->ledger, &s->ledger, err);
    rc = rc != 0 ? rc : wire_consistency_from_proto(r->consistency, &s->consistency, err);
    if (rc != 0) {
        return rc;
    }
    if (s->number >= s->plan.shard_count) {
        return err_set(err, ERR_INVALID, "the plan has %" PRIu32 " shards", s->plan.shard_count);
    }
    s->elements = s->plan.shard_elements[s->number];
    s->records = s->ledger.shape.records;
    return 0;
}

static int make_update(struct ps_shard *s, const Gradus__V1__OpenShardRequest *r, struct err *err)
{
    struct ps_eras eras;
    int rc = ps_eras_make(s, r->eras, r->n_eras, &eras, err);
    if (rc == 0) {
        ps_eras_take(s, &eras, r->version);
    }
    return rc;
}

static void fill_initial(struct ps_shard *s)
{
    float *values = s->snapshots.present->values.data;
    size_t count;
    const struct partition *p = plan_shard(&s->plan, s->number, &count);
    for (size_t i = 0; i < count; i++) {
        const struct variable_spec *v = &s->plan.variables[p[i].variable];
        init_fill(&v->init, (uint64_t)s->spec.training.seed, v->name, p[i].first, p[i].count,
                  values + p[i].offset);
    }
    update_slots_fill(s->update, values, s->slot_data);
}

static void run_wake(struct strand_task *task);

static int fill(struct ps_shard *s, const Gradus__V1__OpenShardRequest *r, struct err *err)
{
    ps_look_for_directory(s, r->owner);
    if (r->joins) {
        return 0;
    }
    if (r->restore[0] != 0) {
        return ps_restore(s, r->restore, r->owner, err);
    }
    fill_initial(s);
    return r->rows_from[0] == 0 ? 0 : ps_tables_begin(s, r->rows_from, r->rows_manifest, err);
}

static int make_core(struct ps_shard *s, const Gradus__V1__OpenShardRequest *r, struct err *err)
{
    struct shard_options o = {
        .shard = s->number,
        .generation = r->shard->generation,
        .fence = ps_fence(r->shard),
        .version = r->version,
        .examples = ledger_records(&s->ledger),
        .elements = s->elements,
        .given = plan_is_given(&s->plan) && r->restore[0] == 0,
        .consistency = s->consistency,
        .has_slots = update_slot_count(s->update) > 0,
        .keeps_bases = s->spec.update.rule->base != RULE_BASE_NONE,
        .eras = s->eras.eras,
        .era_count = s->eras.count,
        .ledger = &s->ledger,
        .workers = (const char *const *)r->workers,
        .worker_count = r->n_workers,
        .role = r->is_backup        ? SHARD_BACKUP
                : r->backup != NULL ? SHARD_PRIMARY
                                    : SHARD_ALONE,
        .backup = r->backup == NULL ? 0 : r->backup->opening,
        .joins = r->joins,
    };
    s->core = shard_new(&o, err);
    return s->core == NULL ? ERR_INVALID : 0;
}

struct ps_shard *ps_shard_new(struct ps *ps, const Gradus__V1__OpenShardRequest *r, struct err *err)
{
    struct ps_shard *s = mem_new(1, sizeof *s);
    s->ps = ps_ref(ps);
    s->job = mem_strdup(r->shard->job);
    s->number = r->shard->shard;
    s->opened_generation = s->file_generation = r->shard->generation;
    s->opening = r->shard->opening;
    ps_keep_secret(s, r->shard);
    atomic_store(&s->refs, 1);
    pthread_mutex_init(&s->standby_lock, NULL);
    s->run_wake = run_wake;
    int rc = read_request(s, r, err);
    rc = rc != 0 ? rc : make_update(s, r, err);
    rc = rc != 0 ? rc : ps_memory_take(s, r, ps_shard_freed, err);
    rc = rc != 0 ? rc : ps_tables_open(s, r->version, err);
    rc = rc != 0 ? rc : make_core(s, r, err);
    rc = rc != 0 ? rc : fill(s, r, err);
    rc = rc != 0 || r->backup == NULL ? rc : ps_follow_new(s, r->backup, false, &s->follow, err);
    if (rc != 0) {
        (void)ps_shard_wrap(s, err);
        ps_shard_unref(s);
        return NULL;
    }
    return s;
}

uint64_t ps_shard_bytes(struct ps_shard *s)
{
    struct snapshots_usage usage;
    snapshots_usage(&s->snapshots, &usage);
    uint64_t bytes = usage.bytes;
    for (size_t i = 0; i < UPDATE_SLOTS_MAX; i++) {
        bytes += s->slots[i].bytes;
    }
    return bytes + buffer_pool_bytes(&s->gradients.buffers) + buffer_pool_bytes(&s->slot_copies) +
           buffer_pool_bytes(&s->base_pool) + buffer_pool_bytes(&s->last_gradient.pool);
}

/* ---- steps ---- */

/* Answers a request; one that waited for an update that failed is refused. */
static void reply(struct ps_shard *s, const struct shard_action *a)
{
    const struct shard_event *e = &((const struct ps_request *)a->tag)->event;
    bool pinned = e->ask.kind == EXCHANGE_PINNED;
    if (s->failed.code == 0 || e->kind != SHARD_EXCHANGE || pinned || a->code != 0) {
        ps_request_answer(a->tag, a, &s->actions.err);
        return;
    }
    struct shard_action refused = {.kind = SHARD_REPLY,
                                   .code = s->failed.code,
                                   .version = a->version,
                                   .generation = a->generation};
    ps_request_answer(a->tag, &refused, &s->failed);
}

/* Sums gradients, and looks at the clock when somebody asks for the time. */
static void sum(struct ps_shard *s, const struct shard_action *a)
{
    bool traced = trace_on(&s->ps->trace);
    uint64_t began_ns = traced ? chrono_now_ns() : 0;
    if (a->kind == SHARD_REDUCE) {
        ps_follow_reduce(s, a);
        ps_reduce(s, a);
    } else {
        ps_add(s, a->buffer, a->source);
    }
    if (traced) {
        ps_trace_shard(s, TRACE_SUM, began_ns, 0);
    }
}

/* @behind: how many actions follow this one. */
static void act(struct ps_shard *s, const struct shard_action *a, size_t behind)
{
    switch (a->kind) {
    case SHARD_REDUCE:
    case SHARD_ADD:
        sum(s, a);
        break;
    case SHARD_SETTLE:
        ps_settle(s, a);
        break;
    case SHARD_ABANDON:
        s->update_begun = false;
        ps_follow_abandon(s);
        break;
    case SHARD_APPLY:
        ps_apply(s, a, a + 1, behind);
        break;
    case SHARD_PUT:
        ps_put(s, a);
        break;
    case SHARD_RELEASE:
        buffer_put(a->buffer);
        break;
    case SHARD_KEEP:
        snapshot_keep(&s->snapshots, a->version);
        if (a->has_base) {
            ps_base_keep(s, a->version);
        } else if (s->tables != NULL && a->reader) {
            shard_tables_pin_reader(s->tables);
        } else if (s->tables != NULL) {
            shard_tables_pin(s->tables);
        }
        if (!a->has_base && !a->reader && !a->state) {
            ps_last_gradient_pin(s, a->version);
        }
        if (a->buffer != NULL) {
            s->slots_to = buffer_ref(a->buffer);
        }
        break;
    case SHARD_FORGET:
        snapshot_forget(&s->snapshots, a->version);
        if (a->has_base) {
            ps_base_forget(s, a->version);
        } else if (s->tables != NULL && a->reader) {
            shard_tables_unpin_reader(s->tables, a->version);
        } else if (s->tables != NULL) {
            shard_tables_unpin(s->tables, a->version);
        }
        if (!a->has_base && !a->reader && !a->state) {
            ps_last_gradient_unpin(s, a->version);
        }
        break;
    case SHARD_WRITE:
        ps_write(a->tag, a);
        break;
    case SHARD_REPLY:
        if (a->tag != NULL) {
            reply(s, a);
        }
        break;
    case SHARD_EMIT:
        ps_follow_emit(s, a, s->stepped);
        break;
    case SHARD_LOAD:
        ps_load(s, a);
        break;
    }
}

/* @e was stepped. */
static void act_all(struct ps_shard *s, const struct shard_event *e)
{
    struct shard_actions *actions = &s->actions;
    s->stepped = e;
    s->update_time = (struct ps_update_time){0};
    for (size_t i = 0; i < actions->count; i++) {
        act(s, &actions->items[i], actions->count - i - 1);
    }
}

/* Its part of the gauges; nothing once it is closed, because it may live on for a while. */
static void show(struct ps_shard *s)
{
    struct shard_info info;
    struct snapshots_usage usage;
    shard_info(s->core, &info);
    s->consistency = info.consistency;
    if (info.closed || info.role != SHARD_PRIMARY) {
        ps_follow_end(s);
    }
    ps_follow_trim(s, info.joining);
    ps_standby_show(s, &info, ps_follow_problem(s), ps_follow_state_bytes(s));
    ps_tables_follow(s);
    ps_averages_trim(s);
    snapshots_usage(&s->snapshots, &usage);
    usage.held = info.closed ? 0 : usage.held;
    if (info.closed) {
        ps_memory_let_go(s);
    } else if (info.readers != s->readers) {
        (void)ps_memory_reserve_readers(s, info.readers, NULL); /* fewer than before */
    }
    meter_change(s->ps->meters.parked, (double)info.parked - (double)s->parked_shown);
    meter_change(s->ps->meters.queued, (double)info.queued - (double)s->queued_shown);
    meter_change(s->ps->meters.snapshots, (double)usage.held - (double)s->snapshots_shown);
    s->parked_shown = info.parked;
    s->queued_shown = info.queued;
    s->snapshots_shown = usage.held;
    ps_tables_show(s);
}

/* True if an update may begin. A file that is being written needs the pinned rows, and only this
 * server can write it: updates wait for the file rather than take the room of its copies. Nothing
 * waits for other readers of a pin, who may themselves wait for updates. */
bool ps_shard_can_update(struct ps_shard *s)
{
    if (s->let_go || !snapshots_can_update(&s->snapshots) || !ps_follow_has_room(s)) {
        return false;
    }
    return s->tables == NULL || atomic_load(&s->writing) == 0 || !shard_tables_short(s->tables);
}

/* Updates that waited for a snapshot, or for a file. */
static void go_on(struct ps_shard *s, uint64_t now_ms)
{
    while (!s->let_go && shard_wants_snapshot(s->core)) {
        if (!ps_shard_can_update(s)) {
            if (!snapshots_can_update(&s->snapshots)) {
                snapshots_want(&s->snapshots);
            }
            break;
        }
        struct shard_event more = {.kind = SHARD_SNAPSHOT, .now_ms = now_ms, .can_apply = true};
        shard_step(s->core, &more, &s->actions);
        act_all(s, &more);
    }
}

/* Receipts that have come meanwhile, without anybody woken for them. */
static void listen(struct ps_shard *s, uint64_t now_ms)
{
    uint64_t received;
    while ((received = ps_follow_listen(s)) > 0) {
        struct shard_event heard = {.kind = SHARD_RECEIPT,
                                    .now_ms = now_ms,
                                    .backup = ps_follow_opening(s),
                                    .received = received};
        shard_step(s->core, &heard, &s->actions);
        act_all(s, &heard);
        go_on(s, now_ms);
    }
}

void ps_shard_step(struct ps_shard *s, struct shard_event *e)
{
    e->now_ms = chrono_now_ms();
    if (s->elements >= PS_SHARED_FLOATS_MIN) {
        work_begin(&s->work, e->kind == SHARD_MEMBERSHIP ? "SetMembership" : "update", 0, "");
    }
    e->can_apply = e->ask.has_push && ps_shard_can_update(s);
    shard_step(s->core, e, &s->actions);
    if (s->actions.err.code != 0) {
        (void)ps_shard_wrap(s, &s->actions.err);
    }
    act_all(s, e);
    if (s->slots_to != NULL) { /* copied before any update */
        show(s);
        ps_keep_slots(s);
        if (s->follow != NULL) {
            ps_shard_wake(s); /* to listen, once they are */
        }
        return;
    }
    go_on(s, e->now_ms);
    listen(s, e->now_ms);
    work_end(&s->work);
    show(s);
}

/* What a generation needs, of which @r tells. */
struct needs {
    size_t bases, gradients;
    struct ps_eras *eras; /* NULL: as before */
};

static struct needs needs_of(const struct ps_shard *s, struct ps_request *r)
{
    const struct shard_event *e = &r->event;
    const bool changes = e->ledger != NULL && e->consistency != NULL;
    const struct consistency *next = changes ? e->consistency : &s->consistency;
    struct ps_eras *eras = changes && r->change->eras.count > 0 ? &r->change->eras : NULL;
    const uint32_t rounds = ps_eras_rounds(eras != NULL ? eras : &s->eras);
    return (struct needs){ps_memory_bases(s, next, e->worker_count),
                          plan_memory_gradients(next, e->worker_count, rounds), eras};
}

static int find_memory(struct ps_shard *s, struct ps_request *r, const struct needs *n,
                       struct err *err)
{
    const bool joins = shard_joins(s->core, &r->event);
    const size_t bases = n->bases > s->bases ? n->bases : s->bases;
    s->version_more |= joins;
    int rc = bases > s->bases || joins ? ps_memory_reserve_bases(s, bases, err) : 0;
    if (rc == 0 && n->gradients > gradient_pool_reserved(&s->gradients)) {
        rc = gradient_pool_reserve(&s->gradients, n->gradients, err);
    }
    return rc == 0 && joins ? ps_follow_join(s, r, err) : rc;
}

/* The generation of @e has begun. */
static void take_generation(struct ps_shard *s, const struct shard_event *e,
                            const struct shard_info *before, const struct shard_info *after,
                            struct ps_eras *eras)
{
    s->bases = ps_memory_bases(s, &after->consistency, e->worker_count);
    s->pin_reserved = after->role == SHARD_BACKUP;
    if (before->role == SHARD_BACKUP && after->role != SHARD_BACKUP) {
        s->file_generation = after->generation;
    }
    if (eras != NULL) {
        ps_eras_take(s, eras, after->version);
    }
    if (e->ledger != NULL) {
        ledger_release(&s->ledger);
        ledger_copy(&s->ledger, e->ledger);
    }
}

/* Refused when there is not the memory that the new generation needs. */
void ps_shard_step_membership(struct ps_shard *s, struct ps_request *r)
{
    const struct shard_event *e = &r->event; /* the task that runs the request keeps it */
    struct shard_info before;
    struct shard_info after;
    struct err err;
    if (s->let_go || shard_check_fence(s->core, e, &err) != 0) {
        ps_shard_step(s, &r->event); /* the core refuses it; a stranger moves no memory */
        return;
    }
    const struct needs needs = needs_of(s, r);
    size_t gradients = gradient_pool_reserved(&s->gradients);
    shard_info(s->core, &before);
    const bool has_room = find_memory(s, r, &needs, &err) == 0;
    if (!has_room && e->kind != SHARD_RECORD) {
        struct shard_action refused = {.kind = SHARD_REPLY, .code = err.code};
        (void)ps_shard_wrap(s, &err);
        ps_request_answer(r, &refused, &err);
    } else {
        r->event.cannot = has_room ? NULL : &err;
        ps_shard_step(s, &r->event);
    }
    ps_follow_joined(s);
    shard_info(s->core, &after);
    const bool loaded = e->record.kind == SHARD_RECORD_STATE && after.records > before.records;
    if (after.generation != before.generation || loaded) {
        take_generation(s, e, &before, &after, needs.eras);
        gradients =
            plan_memory_gradients(&after.consistency, e->worker_count, ps_eras_rounds(&s->eras));
    }
    (void)ps_memory_reserve_bases(s, s->bases, NULL); /* no more than it has by now */
    (void)gradient_pool_reserve(&s->gradients, gradients, NULL);
}

static void run_wake(struct strand_task *task)
{
    struct ps_shard *s = (struct ps_shard *)((char *)task - offsetof(struct ps_shard, wake));
    atomic_store(&s->waking, false);
    struct shard_event heard = {.kind = SHARD_RECEIPT, .backup = ps_follow_opening(s)};
    heard.received = ps_follow_hear(s);
    if (heard.received > 0) {
        ps_shard_step(s, &heard);
    }
    struct shard_event e = {.kind = SHARD_SNAPSHOT};
    ps_shard_step(s, &e);
    ps_shard_unref(s);
}

/* ---- the end ---- */

void ps_shard_end(struct ps_shard *s)
{
    struct shard_event e = {.kind = SHARD_CLOSE, .generation = UINT64_MAX, .own = true};
    ps_shard_step(s, &e);
}
