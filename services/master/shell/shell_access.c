/* SPDX-License-Identifier: Apache-2.0 */
/* The owner of a job: who submitted it, as a text of the store beside the job's row. The core knows
 * nothing of it. Everything on the loop. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "master/shell/shell.h"
#include "os/chrono.h"
#include "service/access.h"

static char *key_of(const char *job)
{
    return mem_printf(STORE_OWNER_OF "%s", job);
}

/* Append the owner of @job, nothing when nobody known has submitted it. */
static int read_owner(struct shell *s, const char *job, struct buf *out, struct err *err)
{
    char *key = key_of(job);
    int rc = s->store->ops->get_text(s->store, key, out, err);
    free(key);
    return rc == ERR_NOT_FOUND ? 0 : rc;
}

/* Rows of earlier versions do not say who owns a job. */
void owner_restore(struct shell *s, struct job_record *record)
{
    struct buf owner = {0};
    if (record->owner[0] == '\0' && read_owner(s, record->id, &owner, NULL) == 0) {
        job_record_set(&record->owner, buf_str(&owner));
    }
    buf_release(&owner);
}

/* Owners are read again each time: a job is submitted seldom, and the store has them all. */
int owner_check_room(struct request *r, struct err *err)
{
    const struct auth_identity *who = request_caller(r).who;
    size_t most = (size_t)r->shell->settings->owner_jobs_max, count = 0;
    uint64_t now_ms = chrono_now_ms();
    if (who->proof == AUTH_OPEN || (who->roles & AUTH_ADMIN) != 0) {
        return 0;
    }
    const struct job_record *job;
    for (size_t i = 0; (job = master_job_at(r->shell->master, i, now_ms)) != NULL; i++) {
        struct buf owner = {0};
        int rc = job_state_is_final(job->state) ? 0 : read_owner(r->shell, job->id, &owner, err);
        count += owner.len > 0 && strcmp(buf_str(&owner), who->name) == 0;
        buf_release(&owner);
        if (rc != 0) {
            return err_wrap(err, "count the jobs of %s", who->name);
        }
    }
    return count < most ? 0
                        : err_set(err, ERR_EXHAUSTED,
                                  "%zu jobs of %s wait or run already, which is as many as one "
                                  "submitter may have (owner_jobs_max)",
                                  count, who->name);
}

int owner_store(struct request *r, const char *job, struct err *err)
{
    const char *name = request_caller(r).who->name;
    if (request_caller(r).who->proof == AUTH_OPEN) {
        return 0;
    }
    struct store *store = r->shell->store;
    struct buf before = {0};
    /* A number may have been drawn before for a job that never came to be. */
    int rc = read_owner(r->shell, job, &before, err);
    if (rc == 0 && strcmp(buf_str(&before), name) != 0) {
        char *key = key_of(job);
        rc = store->ops->put_text(store, key, name, err);
        free(key);
    }
    buf_release(&before);
    return rc == 0 ? 0 : err_wrap(err, "store whose job %s is", job);
}

/* The core, or the store, says of a job that is not there what is to be said. */
static bool exists(struct shell *s, const char *job)
{
    struct buf packed = {0};
    bool there = master_job(s->master, job, chrono_now_ms()) != NULL ||
                 s->store->ops->get(s->store, job, &packed, NULL) == 0;
    buf_release(&packed);
    return there;
}

bool request_may_change(struct request *r, const char *action, const char *job)
{
    const struct service_caller caller = request_caller(r);
    const struct auth_identity *who = caller.who;
    struct buf owner = {0};
    struct err err = {0};
    if ((who->roles & AUTH_ADMIN) != 0 || !exists(r->shell, job)) {
        return true;
    }
    int rc = read_owner(r->shell, job, &owner, &err);
    if (rc == 0) {
        rc = auth_check_owner(who, action, job, buf_str(&owner), &err);
        if (rc != 0) {
            service_refused(r->shell->sc, &caller, ACCESS_OWNER, job, &err);
        }
    }
    buf_release(&owner);
    if (rc != 0) {
        request_fail(r, &err);
    }
    return rc == 0;
}

void request_done(struct request *r, const char *action, const char *job)
{
    if (r->shell->sc != NULL) { /* a shell without a service keeps no log */
        const struct service_caller caller = request_caller(r);
        service_done(r->shell->sc, &caller, action, job);
    }
}
