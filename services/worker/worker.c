#include "worker/worker.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "worker/worker_state.h"

void worker_actions_release(struct worker_actions *a)
{
    free(a->items);
    *a = (struct worker_actions){0};
}

struct worker_action *worker_add(struct worker *w, enum worker_action_kind kind)
{
    struct worker_actions *out = w->out;
    out->items = mem_grow(out->items, &out->capacity, out->count + 1, sizeof *out->items);
    struct worker_action *action = &out->items[out->count++];
    memset(action, 0, sizeof *action);
    action->kind = kind;
    return action;
}

uint64_t worker_backoff(uint32_t attempts)
{
    uint64_t ms = WORKER_BACKOFF_MS_MIN;
    while (attempts-- > 1 && ms < WORKER_BACKOFF_MS_MAX) {
        ms *= 2;
    }
    return ms < WORKER_BACKOFF_MS_MAX ? ms : WORKER_BACKOFF_MS_MAX;
}

uint32_t worker_slot_take(struct worker *w)
{
    for (uint32_t i = 0; i < WORKER_SLOTS_MAX; i++) {
        if (w->slot_users[i] == 0) {
            w->slot_users[i] = 1;
            return i;
        }
    }
    abort(); /* the tree never stacks so many; see WORKER_SLOTS_MAX */
}

void worker_slot_drop(struct worker *w, uint32_t slot)
{
    if (slot != WORKER_SLOT_NONE) {
        w->slot_users[slot]--;
    }
}

struct worker *worker_new(const struct worker_config *config)
{
    struct worker *w = mem_new(1, sizeof *w);
    w->config = *config;
    for (int i = 0; i < WORKER_SET_COUNT; i++) {
        w->versions[i] = mem_new(config->shard_count, sizeof(uint64_t));
    }
    w->gradient_versions = mem_new(config->shard_count, sizeof(uint64_t));
    return w;
}

void worker_free(struct worker *w)
{
    if (w == NULL) {
        return;
    }
    for (int i = 0; i < WORKER_SET_COUNT; i++) {
        free(w->versions[i]);
    }
    free(w->gradient_versions);
    free(w->exchanges);
    ledger_release(&w->ledger);
    ledger_release(&w->next_ledger);
    free(w);
}

uint64_t worker_generation(const struct worker *w)
{
    return w->next_pending ? w->next.generation : w->a.generation;
}

uint64_t worker_position(const struct worker *w)
{
    return w->position;
}

/* ---- exchanges ---- */

struct worker_action worker_request(const struct worker *w, uint32_t shard)
{
    return (struct worker_action){
        .shard = shard,
        .generation = w->a.generation,
        .slot = WORKER_SLOT_NONE,
        .set = w->current,
    };
}

void worker_exchange(struct worker *w, struct worker_action *request, bool evaluation)
{
    request->kind = WORKER_DO_EXCHANGE;
    request->exchange = ++w->exchange_last;
    w->exchanges =
        mem_grow(w->exchanges, &w->exchange_capacity, w->exchange_count + 1, sizeof *w->exchanges);
    w->exchanges[w->exchange_count++] =
        (struct exchange){.request = *request, .evaluation = evaluation};
    if (evaluation) {
        w->evaluation_open++;
    } else {
        w->training_open++;
    }
    if (request->slot != WORKER_SLOT_NONE) {
        w->slot_users[request->slot]++;
    }
    *worker_add(w, WORKER_DO_EXCHANGE) = *request;
}

static void close_exchange(struct worker *w, size_t i)
{
    struct exchange *x = &w->exchanges[i];
    worker_slot_drop(w, x->request.slot);
    if (x->evaluation) {
        w->evaluation_open--;
    } else {
        w->training_open--;
    }
    *x = w->exchanges[--w->exchange_count];
}

/* Failed exchanges that only wait to be tried again will not be: their generation is over. */
static void drop_waiting(struct worker *w)
{
    for (size_t i = 0; i < w->exchange_count;) {
        if (!w->exchanges[i].evaluation && w->exchanges[i].waiting) {
            close_exchange(w, i);
            w->params_valid = false; /* part of its answer may have arrived */
        } else {
            i++;
        }
    }
}

/* ---- evaluation ---- */

static void evaluation_pop(struct worker *w)
{
    w->evaluation_count--;
    memmove(w->evaluations, w->evaluations + 1, w->evaluation_count * sizeof w->evaluations[0]);
}

static void evaluation_fail(struct worker *w, int code, const char *message)
{
    struct worker_action *action = worker_add(w, WORKER_DO_FAIL_EVALUATE);
    action->tag = w->evaluations[0].tag;
    action->code = code;
    text_copy(action->message, sizeof action->message, message);
    evaluation_pop(w);
}

static void evaluation_pump(struct worker *w)
{
    if (w->evaluation_count == 0 || w->evaluation_open > 0 || w->computing != COMPUTING_NOTHING) {
        return;
    }
    struct evaluation *e = &w->evaluations[0];
    if (strcmp(e->pin_id, w->evaluation_pin) == 0) {
        struct worker_action *action = worker_add(w, WORKER_DO_EVALUATE);
        action->tag = e->tag;
        action->first = e->first;
        action->count = e->count;
        action->set = WORKER_SET_EVALUATION;
        w->computing = COMPUTING_EVALUATION;
        evaluation_pop(w);
        return;
    }
    w->evaluation_pin[0] = '\0';
    text_copy(w->evaluation_pulling, sizeof w->evaluation_pulling, e->pin_id);
    for (uint32_t s = 0; s < w->config.shard_count; s++) {
        struct worker_action request = worker_request(w, s);
        request.pull = WORKER_PULL_PINNED;
        request.set = WORKER_SET_EVALUATION;
        text_copy(request.pin_id, sizeof request.pin_id, e->pin_id);
        worker_exchange(w, &request, true);
    }
}

/* After one failure the other answers of that pull are of no use. */
static void evaluation_exchanged(struct worker *w, const struct worker_event *event,
                                 const char *pin_id)
{
    if (strcmp(w->evaluation_pulling, pin_id) != 0) {
        return;
    }
    if (event->code != 0) {
        w->evaluation_pulling[0] = '\0';
        evaluation_fail(w, event->code, event->message != NULL ? event->message : "pull failed");
    } else if (w->evaluation_open == 0) {
        w->evaluation_pulling[0] = '\0';
        text_copy(w->evaluation_pin, sizeof w->evaluation_pin, pin_id);
    }
}

static void on_evaluate(struct worker *w, const struct worker_event *event)
{
    if (w->evaluation_count == WORKER_EVALUATIONS_MAX) {
        struct worker_action *action = worker_add(w, WORKER_DO_FAIL_EVALUATE);
        action->tag = event->tag;
        action->code = ERR_EXHAUSTED;
        (void)snprintf(action->message, sizeof action->message, "%d evaluations are queued already",
                       WORKER_EVALUATIONS_MAX);
        return;
    }
    struct evaluation *e = &w->evaluations[w->evaluation_count++];
    *e = (struct evaluation){.tag = event->tag, .first = event->first, .count = event->count};
    text_copy(e->pin_id, sizeof e->pin_id, event->pin_id);
}

/* ---- the end ---- */

/* Nothing is computed, sent or reported from now on. */
static void stop(struct worker *w)
{
    w->stopped = true;
    while (w->evaluation_count > 0) {
        evaluation_fail(w, ERR_CANCELLED, "the job was stopped");
    }
}

void worker_fail_job(struct worker *w, int code, const char *message)
{
    w->failure = (struct worker_action){.kind = WORKER_DO_FAIL_JOB, .code = code};
    text_copy(w->failure.message, sizeof w->failure.message, message);
    *worker_add(w, WORKER_DO_FAIL_JOB) = w->failure;
    w->failure.again = true;
    stop(w);
}

/* A job whose worker has failed would wait for it for ever if the master did not hear of it. */
static void on_failure_reported(struct worker *w, const struct worker_event *event)
{
    if (event->code == 0 || event->code == ERR_NOT_FOUND || event->code == ERR_ABORTED) {
        return;
    }
    w->failure_attempts++;
    w->failure_retry_ms = w->now_ms + worker_backoff(w->failure_attempts);
    worker_add(w, WORKER_DO_TIMER)->at_ms = w->failure_retry_ms;
}

static void refuse_call(struct worker *w, enum worker_action_kind reply, uint64_t tag)
{
    struct worker_action *action = worker_add(w, reply);
    action->tag = tag;
    action->code = ERR_CANCELLED;
    text_copy(action->message, sizeof action->message, "the job was stopped on this worker");
}

/* Answers to what was under way come too late for anything. */
static void step_stopped(struct worker *w, const struct worker_event *event)
{
    switch (event->kind) {
    case WORKER_ASSIGN:
        refuse_call(w, WORKER_DO_REPLY_ASSIGN, event->tag);
        break;
    case WORKER_EVALUATE:
        refuse_call(w, WORKER_DO_FAIL_EVALUATE, event->tag);
        break;
    case WORKER_FAILURE_REPORTED:
        on_failure_reported(w, event);
        break;
    case WORKER_TIMER:
        if (w->failure_retry_ms != 0 && w->failure_retry_ms <= w->now_ms) {
            w->failure_retry_ms = 0;
            *worker_add(w, WORKER_DO_FAIL_JOB) = w->failure;
        }
        break;
    default:
        break;
    }
}

/* ---- assignment ---- */

static void take_ledger(struct ledger *to, const struct ledger *from,
                        const struct ledger_shape *shape)
{
    ledger_release(to);
    if (ledger_init(to, from != NULL ? &from->shape : shape, from != NULL ? from->epoch : 0,
                    NULL) != 0) {
        abort(); /* the shell checked the shape */
    }
    if (from != NULL) {
        memcpy(to->done, from->done, from->split_count * sizeof to->done[0]);
    }
}

static void reply_assign(struct worker *w, uint64_t tag, int code, const char *message)
{
    struct worker_action *action = worker_add(w, WORKER_DO_REPLY_ASSIGN);
    action->tag = tag;
    action->code = code;
    action->position = w->position;
    if (message != NULL) {
        text_copy(action->message, sizeof action->message, message);
    }
}

/* The first step that this worker has not begun: a step counts as begun with its first gradient. */
static uint64_t first_step_not_begun(const struct worker *w)
{
    return w->position + (w->step_begun || w->computing == COMPUTING_BATCH ? 1 : 0);
}

static void hold(struct worker *w, uint64_t tag)
{
    w->a.hold = true;
    if (w->a.mode == TRAINING_SYNC) {
        w->a.step_limit = first_step_not_begun(w);
    }
    struct worker_action *action = worker_add(w, WORKER_DO_REPLY_ASSIGN);
    action->tag = tag;
    action->position = w->a.mode == TRAINING_SYNC ? w->a.step_limit : w->position;
}

static void on_assign(struct worker *w, const struct worker_event *event)
{
    const struct worker_assignment *a = &event->assign;
    uint64_t known = worker_generation(w);
    if ((w->assigned || w->next_pending) && a->generation < known) {
        char message[128];
        (void)snprintf(message, sizeof message,
                       "generation %" PRIu64 " is over; this worker is at %" PRIu64, a->generation,
                       known);
        reply_assign(w, event->tag, ERR_ABORTED, message);
        return;
    }
    if ((w->assigned || w->next_pending) && a->generation == known) {
        struct worker_assignment *present = w->next_pending ? &w->next : &w->a;
        if (a->hold && !w->next_pending) {
            hold(w, event->tag);
            return;
        }
        present->hold = a->hold;
        if (a->hold) {
            present->step_limit = present->step;
        } else if (a->step_limit > present->step_limit) {
            present->step_limit = a->step_limit;
        }
        w->idle_reported = false;
        reply_assign(w, event->tag, 0, NULL);
        if (w->next_pending) {
            w->out->items[w->out->count - 1].position = present->step;
        }
        return;
    }
    w->next = *a;
    w->next.ledger = NULL;
    take_ledger(&w->next_ledger, a->ledger, &w->config.shape);
    w->next_pending = true;
    if (a->hold) {
        w->next.step_limit = a->step;
    }
    reply_assign(w, event->tag, 0, NULL);
}

static bool quiet(const struct worker *w)
{
    return w->training_open == 0 && w->computing != COMPUTING_BATCH;
}

static void begin_next(struct worker *w)
{
    struct ledger old = w->ledger;
    w->ledger = w->next_ledger;
    w->next_ledger = (struct ledger){0};
    ledger_release(&old);
    w->a = w->next;
    w->next_pending = false;
    w->assigned = true;
    w->fenced = false;
    w->idle_reported = false;
    w->idle_due = false;
    memset(w->slot_users, 0, sizeof w->slot_users);
    w->stack_count = 0;
    if (w->a.mode == TRAINING_SYNC) {
        worker_sync_begin(w);
    } else {
        worker_async_begin(w);
    }
}

/* ---- exchanges answered ---- */

static bool retriable(int code)
{
    /* FAILED_PRECONDITION: the shard has not heard of this generation yet. NOT_FOUND: the server
     * came back without the shard; the master will say what becomes of the job. */
    return code == ERR_UNAVAILABLE || code == ERR_STATE || code == ERR_TIMEOUT ||
           code == ERR_CANCELLED || code == ERR_NOT_FOUND || code == ERR_EXHAUSTED;
}

static void on_exchanged(struct worker *w, const struct worker_event *event)
{
    size_t i = 0;
    while (i < w->exchange_count && w->exchanges[i].request.exchange != event->exchange) {
        i++;
    }
    if (i == w->exchange_count) {
        return; /* answered before, or of a time that is over */
    }
    struct exchange *x = &w->exchanges[i];
    struct worker_action request = x->request;
    if (x->evaluation) {
        if (event->code == 0) {
            w->versions[WORKER_SET_EVALUATION][request.shard] = event->version;
        }
        close_exchange(w, i);
        evaluation_exchanged(w, event, request.pin_id);
        return;
    }
    bool over = w->fenced || w->next_pending || request.generation != w->a.generation;
    if (event->code != 0 && !over && event->code != ERR_ABORTED) {
        if (!retriable(event->code)) {
            close_exchange(w, i);
            worker_fail_job(w, event->code,
                            event->message != NULL ? event->message : "exchange failed");
            return;
        }
        x->waiting = true;
        x->attempts++;
        x->retry_ms = w->now_ms + worker_backoff(x->attempts);
        return;
    }
    if (event->code != 0) {
        close_exchange(w, i);
        w->fenced = true;
        w->params_valid = false;
        drop_waiting(w);
        return;
    }
    if (request.pull != WORKER_PULL_NONE) {
        w->versions[request.set][request.shard] = event->version;
    }
    close_exchange(w, i);
    if (over) {
        w->params_valid = false;
        return;
    }
    if (w->a.mode == TRAINING_SYNC) {
        worker_sync_exchanged(w);
    } else {
        worker_async_exchanged(w, event->progress);
    }
}

static void retry_exchanges(struct worker *w)
{
    if (w->fenced || w->next_pending) {
        drop_waiting(w);
        return;
    }
    for (size_t i = 0; i < w->exchange_count; i++) {
        struct exchange *x = &w->exchanges[i];
        if (x->waiting && x->retry_ms <= w->now_ms) {
            x->waiting = false;
            struct worker_action request = x->request;
            *worker_add(w, WORKER_DO_EXCHANGE) = request;
        }
    }
}

/* ---- progress ---- */

static void report_pump(struct worker *w)
{
    if (!w->assigned) {
        return;
    }
    if (w->report_open) {
        if (w->report_retry_ms != 0 && w->report_retry_ms <= w->now_ms) {
            w->report_retry_ms = 0;
            w->report.generation = w->a.generation;
            w->report.again = true;
            *worker_add(w, WORKER_DO_REPORT_PROGRESS) = w->report;
        }
        return;
    }
    bool idle = w->idle_due && !w->idle_reported;
    bool due = w->measured && w->now_ms >= w->report_last_ms + WORKER_REPORT_MS;
    if (!idle && !due && !w->report_now) {
        return;
    }
    struct worker_action *action = worker_add(w, WORKER_DO_REPORT_PROGRESS);
    action->sequence = ++w->report_sequence;
    action->generation = w->a.generation;
    action->position = w->position;
    action->idle_report = w->idle_due;
    w->report = *action;
    w->report_open = true;
    w->report_retry_ms = 0;
    w->report_attempts = 0;
    w->report_last_ms = w->now_ms;
    w->idle_reported = w->idle_due;
    w->measured = false;
    w->report_now = false;
}

static void on_progress_reported(struct worker *w, const struct worker_event *event)
{
    if (!w->report_open) {
        return;
    }
    if (event->code == 0 || event->code == ERR_NOT_FOUND || event->code == ERR_ABORTED) {
        w->report_open = false;
        w->report_acked = w->report.sequence;
        if (event->code == ERR_ABORTED && w->report.idle_report &&
            w->report.generation == w->a.generation) {
            w->fenced = true; /* the master is further; its next assignment comes */
        }
        return;
    }
    w->report_attempts++;
    w->report_retry_ms = w->now_ms + worker_backoff(w->report_attempts);
}

/* ---- the step ---- */

/* The earlier of @at and @candidate; 0 is none, and what is due already was done by pump(). */
static uint64_t earlier(const struct worker *w, uint64_t at, uint64_t candidate)
{
    if (candidate <= w->now_ms) {
        return at;
    }
    return at == 0 || candidate < at ? candidate : at;
}

static void set_timer(struct worker *w)
{
    uint64_t at = 0;
    for (size_t i = 0; i < w->exchange_count; i++) {
        if (w->exchanges[i].waiting) {
            at = earlier(w, at, w->exchanges[i].retry_ms);
        }
    }
    at = earlier(w, at, w->lease_retry_ms);
    at = earlier(w, at, w->split_retry_ms);
    at = earlier(w, at, w->report_open ? w->report_retry_ms : 0);
    if (w->measured && !w->report_open) {
        at = earlier(w, at, w->report_last_ms + WORKER_REPORT_MS);
    }
    if (at != 0) {
        worker_add(w, WORKER_DO_TIMER)->at_ms = at;
    }
}

static void pump(struct worker *w)
{
    retry_exchanges(w);
    evaluation_pump(w);
    if ((w->next_pending || w->fenced) && w->exchange_count > 0) {
        drop_waiting(w);
    }
    if (w->next_pending && quiet(w)) {
        begin_next(w);
    }
    if (w->assigned && !w->fenced && !w->next_pending) {
        if (w->a.mode == TRAINING_SYNC) {
            worker_sync_pump(w);
        } else {
            worker_async_pump(w);
        }
    }
    report_pump(w);
}

static void on_computed(struct worker *w)
{
    enum computing was = w->computing;
    w->computing = COMPUTING_NOTHING;
    if (was != COMPUTING_BATCH) {
        return;
    }
    w->measured = true;
    if (w->a.mode == TRAINING_SYNC) {
        worker_sync_computed(w);
    } else {
        worker_async_computed(w);
    }
}

static void take_event(struct worker *w, const struct worker_event *event)
{
    switch (event->kind) {
    case WORKER_ASSIGN:
        on_assign(w, event);
        break;
    case WORKER_EVALUATE:
        on_evaluate(w, event);
        break;
    case WORKER_COMPUTED:
        on_computed(w);
        break;
    case WORKER_EXCHANGED:
        on_exchanged(w, event);
        break;
    case WORKER_LEASED:
        worker_async_leased(w, event);
        break;
    case WORKER_SPLIT_REPORTED:
        worker_async_split_reported(w, event);
        break;
    case WORKER_PROGRESS_REPORTED:
        on_progress_reported(w, event);
        break;
    case WORKER_TIMER:
        break; /* pump() looks at what is due */
    case WORKER_FAIL:
        worker_fail_job(w, event->code, event->message);
        break;
    case WORKER_FAILURE_REPORTED: /* only a stopped worker reports one */
        break;
    case WORKER_STOP:
        stop(w);
        break;
    }
}

void worker_step(struct worker *w, const struct worker_event *event, struct worker_actions *out)
{
    w->out = out;
    if (event->now_ms > w->now_ms) {
        w->now_ms = event->now_ms;
    }
    if (w->stopped) {
        step_stopped(w, event);
    } else {
        take_event(w, event);
    }
    if (!w->stopped) {
        pump(w);
        set_timer(w);
    }
    w->out = NULL;
}
