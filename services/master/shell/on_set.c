/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs.Set: the job's file with the changes applied, checked on the pool, then the core's to put
 * into force. The call is answered when that has happened, however long it takes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/chrono.h"
#include "base/mem.h"
#include "base/text.h"
#include "gradus/v1/jobs.pb-c.h"
#include "master/shell/job_wire.h"
#include "master/shell/shell.h"

#define SETS_MAX 1000
#define TRIES_MAX 5 /* somebody else changed the job while we parsed: hardly so often in a row */
#define SHOWN_BYTES 256
#define SOURCE "--set "

struct change {
    char *base; /* the text that the changes are applied to */
    struct job_spec spec;
    unsigned tries;
};

static void forget_text(struct change *c)
{
    free(c->base);
    c->base = NULL;
    job_spec_release(&c->spec);
    c->spec = (struct job_spec){0};
}

static void free_change(void *data)
{
    forget_text(data);
    free(data);
}

static const Gradus__V1__SetJobRequest *request_of(const struct request *r)
{
    return (const Gradus__V1__SetJobRequest *)r->msg->body;
}

/* ---- parse, on the pool ---- */

static bool reported(const struct diags *diags, const char *source)
{
    for (size_t i = 0; i < diags->count; i++) {
        if (strcmp(diags->items[i].file, source) == 0) {
            return true;
        }
    }
    return false;
}

/* Keys that cannot change any more, but for those that are wrong anyway. */
static void refuse_fixed(const Gradus__V1__SetJobRequest *q, struct diags *diags)
{
    for (size_t i = 0; i < q->n_sets; i++) {
        char shown[SHOWN_BYTES], source[SHOWN_BYTES + sizeof SOURCE];
        (void)snprintf(source, sizeof source, SOURCE "%s",
                       text_shown(q->sets[i], shown, sizeof shown));
        char *key = mem_strdup(q->sets[i]);
        key[strcspn(key, "=")] = '\0';
        const char *why = job_spec_fixed(key);
        if (why != NULL && !reported(diags, source)) {
            diags_add(diags, source, 0, 0, "%s", why);
        }
        free(key);
    }
}

/* "training.seed=3: fixed when the job was submitted", a line each. */
static void fail_with(struct request *r, const struct diags *diags)
{
    struct buf text = {0};
    diags_format(diags, &text);
    struct buf shown = {0};
    for (const char *line = buf_str(&text), *end; *line != '\0'; line = end) {
        end = line + strcspn(line, "\n");
        end += *end == '\n';
        size_t skip = strncmp(line, SOURCE, sizeof SOURCE - 1) == 0 ? sizeof SOURCE - 1 : 0;
        buf_add(&shown, line + skip, (size_t)(end - line) - skip);
    }
    while (shown.len > 0 && shown.data[shown.len - 1] == '\n') {
        shown.data[--shown.len] = '\0';
    }
    struct err err = {0};
    err_set(&err, ERR_INVALID, "%s", buf_str(&shown));
    buf_release(&text);
    buf_release(&shown);
    request_fail(r, &err);
}

static void parse(void *ctx)
{
    struct request *r = ctx;
    struct change *c = r->data;
    const Gradus__V1__SetJobRequest *q = request_of(r);
    const char **sets = mem_new(q->n_sets, sizeof *sets);
    for (size_t i = 0; i < q->n_sets; i++) {
        sets[i] = q->sets[i];
    }
    char job[SHOWN_BYTES];
    struct diags diags = {0};
    (void)job_spec_parse(c->base, strlen(c->base), text_shown(q->job, job, sizeof job), sets,
                         q->n_sets, &c->spec, &diags);
    free(sets);
    refuse_fixed(q, &diags);
    if (diags.count > 0) {
        fail_with(r, &diags);
    } else {
        request_post(r);
    }
    diags_release(&diags);
}

/* ---- on the loop ---- */

static void answer(struct request *r, const struct master_reply *reply)
{
    request_done(r, "set", reply->job->id);
    request_reply_job(r, reply->job, JOB_WIRE_ALL);
}

static void begin(struct request *r);

static void refused(struct request *r, const struct err *err)
{
    const struct change *c = r->data;
    if (err->code == ERR_ABORTED && c->tries < TRIES_MAX) {
        begin(r);
    } else {
        request_fail(r, err);
    }
}

static void run_parsed(struct request *r)
{
    struct change *c = r->data;
    struct master_event e = {.kind = MASTER_SET};
    e.set = (struct master_set_event){.job = request_of(r)->job, .spec = &c->spec, .base = c->base};
    r->refused = refused;
    request_event(r, &e, answer);
}

/* Why a job that the core does not know cannot be changed. */
static int absent(struct shell *s, const char *job, struct err *err)
{
    struct buf packed = {0};
    int rc = s->store->ops->get(s->store, job, &packed, err);
    buf_release(&packed);
    if (rc == 0) {
        return err_set(err, ERR_STATE, "job %s has ended", job);
    }
    return rc == ERR_NOT_FOUND ? err_set(err, rc, "no job %.128s", job) : rc;
}

static void begin(struct request *r)
{
    struct change *c = r->data;
    const struct job_record *record =
        master_job(r->shell->master, request_of(r)->job, chrono_now_ms());
    struct err err = {0};
    if (record == NULL) {
        (void)absent(r->shell, request_of(r)->job, &err);
        request_fail(r, &err);
        return;
    }
    forget_text(c);
    c->base = mem_strdup(record->text);
    c->tries++;
    r->run = run_parsed;
    if (pool_post(r->shell->pool, parse, r, &err) < 0) {
        request_fail(r, &err);
    }
}

static void run_set(struct request *r)
{
    struct err err = {0};
    size_t n = request_of(r)->n_sets;
    if (n == 0 || n > SETS_MAX) {
        err_set(&err, ERR_INVALID, "%zu keys to set; from 1 to %d are possible", n, SETS_MAX);
        request_fail(r, &err);
        return;
    }
    if (!request_may_change(r, "set", request_of(r)->job)) {
        return;
    }
    r->data = mem_new(1, sizeof(struct change));
    r->free_data = free_change;
    begin(r);
}

void on_set_call(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    request_begin(service, call, msg, run_set);
}
