/* SPDX-License-Identifier: Apache-2.0 */
/* Finds a job by its id, at the masters that answer and in the databases of those that have ended.
 * When two have it, nobody but the user can say which is meant. */
#include "cli/find_job.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "client/plain.h"
#include "master/store/store.h"
#include "wire/wire.h"

#define NAMED_LOOKED_AT 1000 /* jobs, the newest, for one that may be meant */

/* ---- rows that a master has left ---- */

bool job_has_ended(const Gradus__V1__Job *job)
{
    return job->state == GRADUS__V1__JOB_STATE__SUCCEEDED ||
           job->state == GRADUS__V1__JOB_STATE__FAILED ||
           job->state == GRADUS__V1__JOB_STATE__CANCELLED;
}

/* Unpacks a row, which says how things were when its master ended, and makes it say how they are.
 * @hint: what starts a master in @state_dir, once a row needed that. */
static Gradus__V1__Job *unpack(const void *data, size_t n, const char *state_dir, struct buf *hint)
{
    Gradus__V1__Job *job = gradus__v1__job__unpack(NULL, n, data);
    if (job != NULL) {
        plain_message(&job->base);
    }
    if (job != NULL && !job_has_ended(job)) {
        if (hint->len == 0) {
            places_start_hint(state_dir, hint);
        }
        char *reason = mem_printf("no master runs; `%s` goes on with it", buf_str(hint));
        if (job->reason[0] != '\0') { /* the empty one is a constant */
            free(job->reason);
        }
        job->reason = reason;
        job->state = GRADUS__V1__JOB_STATE__PENDING; /* for a master */
    }
    return job;
}

struct rows {
    const char *state_dir;
    struct buf hint;
    Gradus__V1__Job **items;
    size_t count, capacity;
};

static int collect(void *ctx, const struct store_row *row, struct err *err)
{
    struct rows *rows = ctx;
    (void)err;
    Gradus__V1__Job *job =
        row->damage == NULL ? unpack(row->job, row->job_bytes, rows->state_dir, &rows->hint) : NULL;
    if (job != NULL) { /* the others can be looked at all the same */
        rows->items = mem_grow(rows->items, &rows->capacity, rows->count + 1, sizeof(void *));
        rows->items[rows->count++] = job;
    }
    return 0;
}

int find_rows(const char *state_dir, size_t limit, Gradus__V1__Job ***jobs, size_t *count,
              struct err *err)
{
    struct store *store = NULL;
    struct rows rows = {.state_dir = state_dir};
    int rc = store_sqlite_read(state_dir, &store, err);
    if (rc == 0) {
        rc = store->ops->load(store, limit, collect, &rows, err);
        store->ops->close(store);
    }
    for (size_t i = 0; i < rows.count / 2; i++) { /* oldest first → newest first */
        Gradus__V1__Job *first = rows.items[i];
        rows.items[i] = rows.items[rows.count - 1 - i];
        rows.items[rows.count - 1 - i] = first;
    }
    while (rows.count > limit) { /* jobs that have not ended come on top of the limit */
        gradus__v1__job__free_unpacked(rows.items[--rows.count], NULL);
    }
    buf_release(&rows.hint);
    *jobs = rows.items;
    *count = rows.count;
    return rc;
}

static int find_row(const char *state_dir, const char *id, struct found_job *out, struct err *err)
{
    struct store *store = NULL;
    struct buf packed = {0};
    int rc = store_sqlite_read(state_dir, &store, err);
    if (rc == 0) {
        rc = store->ops->get(store, id, &packed, err);
        store->ops->close(store);
    }
    if (rc == 0) {
        struct buf hint = {0};
        out->row = unpack(packed.data, packed.len, state_dir, &hint);
        buf_release(&hint);
        out->job = out->row;
        rc = out->row != NULL
                 ? 0
                 : err_set(err, ERR_CORRUPT, "%s: the row of job %s cannot be read", state_dir, id);
    }
    buf_release(&packed);
    return rc;
}

/* ---- places ---- */

static int ask(const struct place *place, const char *id, struct found_job *out, struct err *err)
{
    Gradus__V1__GetJobRequest request = GRADUS__V1__GET_JOB_REQUEST__INIT;
    int rc = client_open(&out->client, place->address, place->tls, err);
    if (rc != 0) {
        return rc;
    }
    request.job = client_text(id);
    rc = client_call(&out->client, "Get", &request.base, client_timeout_ms(), &out->reply, err);
    if (rc == 0) {
        out->job = (const Gradus__V1__Job *)out->reply->body;
    } else {
        client_close(&out->client);
    }
    return rc;
}

static int look_at(const struct place *place, const char *id, struct found_job *out,
                   struct err *err)
{
    struct err local = {0};
    int rc = place->address != NULL ? ask(place, id, out, &local) : ERR_UNAVAILABLE;
    bool no_word = rc == ERR_UNAVAILABLE || rc == ERR_UNKNOWN; /* or another one has its port */
    if (no_word && place->state_dir != NULL) {
        local = (struct err){0};
        rc = find_row(place->state_dir, id, out, &local);
    }
    if (rc != 0) {
        *err = local;
    }
    if (rc == 0 && place->state_dir != NULL) {
        out->state_dir = mem_strdup(place->state_dir);
    }
    return rc;
}

static int not_found(const struct places *places, const char *id, struct err *err)
{
    struct buf where = {0};
    places_describe(places, &where);
    int rc = places->count == 0
                 ? err_set(err, ERR_UNAVAILABLE,
                           "no place to look for job %.128s: tried %s; name its master with "
                           "--master HOST:PORT (or GRADUS_MASTER), or its --state-dir DIR",
                           id, buf_str(&where))
                 : err_set(err, ERR_NOT_FOUND,
                           "no job %.128s: looked at %s; `gradus list` shows jobs, --master "
                           "HOST:PORT (or GRADUS_MASTER) or --state-dir DIR another place",
                           id, buf_str(&where));
    buf_release(&where);
    return rc;
}

/* ---- a job that may be meant ---- */

static bool is_numbered(const char *id, const char *name)
{
    const size_t n = strlen(name);
    return strncmp(id, name, n) == 0 && id[n] == '-' && id[n + 1] != '\0' &&
           strspn(id + n + 1, "0123456789") == strlen(id + n + 1);
}

/* The newest of @jobs that was submitted by this name. Returns owned, or NULL. */
static char *newest_named(Gradus__V1__Job *const *jobs, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (is_numbered(jobs[i]->id, name)) {
            return mem_strdup(jobs[i]->id);
        }
    }
    return NULL;
}

static char *newest_of_master(const struct place *place, const char *name)
{
    Gradus__V1__ListJobsRequest request = GRADUS__V1__LIST_JOBS_REQUEST__INIT;
    struct client client = {0};
    struct rpc_msg *reply = NULL;
    char *found = NULL;
    request.limit = NAMED_LOOKED_AT;
    if (client_open(&client, place->address, place->tls, NULL) == 0 &&
        client_call(&client, "List", &request.base, client_timeout_ms(), &reply, NULL) == 0) {
        const Gradus__V1__ListJobsResponse *r = (const Gradus__V1__ListJobsResponse *)reply->body;
        found = newest_named(r->jobs, r->n_jobs, name);
    }
    rpc_msg_unref(reply);
    client_close(&client);
    return found;
}

static char *newest_of_rows(const char *state_dir, const char *name)
{
    Gradus__V1__Job **jobs = NULL;
    size_t count = 0;
    (void)find_rows(state_dir, NAMED_LOOKED_AT, &jobs, &count, NULL);
    char *found = newest_named(jobs, count, name);
    for (size_t i = 0; i < count; i++) {
        gradus__v1__job__free_unpacked(jobs[i], NULL);
    }
    free(jobs);
    return found;
}

/* Adds the job that the name @id was given to, if there is one. */
static void suggest(const struct places *places, const char *id, struct err *err)
{
    char *found = NULL;
    for (size_t i = 0; i < places->count && found == NULL; i++) {
        const struct place *p = &places->items[i];
        found = p->address != NULL ? newest_of_master(p, id) : NULL;
        if (found == NULL && p->state_dir != NULL) {
            found = newest_of_rows(p->state_dir, id);
        }
    }
    if (found != NULL) {
        err_set(err, err->code, "%s; perhaps %s is meant", err->msg, found);
    }
    free(found);
}

/* ---- the search ---- */

/* The result of the search so far. */
struct search {
    struct found_job found; /* the first one */
    struct buf places;      /* of all, for people */
    size_t count;
    struct err err; /* of a place that could not be looked at */
};

static void search_release(struct search *s)
{
    found_job_release(&s->found);
    buf_release(&s->places);
}

static void add_place(const struct found_job *f, struct buf *out)
{
    buf_add_str(out, out->len > 0 ? ", " : "");
    buf_add_str(out, f->state_dir != NULL ? "--state-dir " : "--master ");
    cli_add_word(f->state_dir != NULL ? f->state_dir : rpc_channel_target(f->client.channel), out);
}

/* A master that is found by its address and by its state directory is one place. */
static bool is_same(const struct found_job *a, const struct found_job *b)
{
    return a->reply != NULL && b->reply != NULL && a->job->submitted_ms == b->job->submitted_ms;
}

static void take(struct search *s, struct found_job *found)
{
    if (s->count > 0 && is_same(&s->found, found)) {
        found_job_release(found);
        return;
    }
    add_place(found, &s->places);
    if (s->count++ == 0) {
        s->found = *found;
    } else {
        found_job_release(found);
    }
}

static void look_everywhere(const struct places *places, const char *id, struct search *s)
{
    for (size_t i = 0; i < places->count; i++) {
        struct found_job found = {0};
        struct err local = {0};
        int rc = look_at(&places->items[i], id, &found, &local);
        if (rc == 0) {
            take(s, &found);
        } else if (places->items[i].address != NULL && (places->given || rc != ERR_NOT_FOUND)) {
            s->err = local;
        }
    }
}

static int search(const struct cli_common *common, const char *id, struct search *s,
                  struct err *err)
{
    struct places places;
    if (id[0] == '\0') {
        return err_set(err, ERR_INVALID, "the name of the job is empty");
    }
    places_find(common, &places);
    look_everywhere(&places, id, s);
    int rc = 0;
    if (s->count > 1) {
        rc = err_set(err, ERR_INVALID, "%zu places have a job %.128s; say which one is meant: %s",
                     s->count, id, buf_str(&s->places));
    } else if (s->count == 0 && s->err.code != 0) {
        rc = err_set(err, s->err.code, "%s", s->err.msg);
    } else if (s->count == 0) {
        rc = not_found(&places, id, err);
    }
    if (rc == ERR_NOT_FOUND) {
        suggest(&places, id, err);
    }
    places_release(&places);
    return rc;
}

int find_job(const struct cli_common *common, const char *id, struct found_job *out,
             struct err *err)
{
    struct search s = {.err = {0}};
    int rc = search(common, id, &s, err);
    if (rc == 0) {
        *out = s.found;
        s.found = (struct found_job){0};
    }
    search_release(&s);
    return rc;
}

int find_live_job(const struct cli_common *common, const char *id, struct found_job *out,
                  struct err *err)
{
    int rc = find_job(common, id, out, err);
    if (rc == 0 && out->row != NULL) {
        const Gradus__V1__Job *job = out->job;
        rc = err_set(err, ERR_STATE, "no master runs in %s, where job %s is: %s%s%s",
                     out->state_dir, id, wire_state_name(job->state),
                     job_has_ended(job) ? "" : "; ", job_has_ended(job) ? "" : job->reason);
    }
    return rc;
}

void found_job_release(struct found_job *f)
{
    client_close(&f->client);
    rpc_msg_unref(f->reply);
    if (f->row != NULL) {
        gradus__v1__job__free_unpacked(f->row, NULL);
    }
    free(f->state_dir);
    *f = (struct found_job){0};
}
