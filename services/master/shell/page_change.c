/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "json/json_doc.h"
#include "master/shell/page_asked.h"

#define JOBS "gradus.v1.Jobs/"
#define PICTURE_STEPS 12 /* that can be told apart */
#define PICTURE_MS 3000

/* ---- messages ---- */

static void fill_get(struct page_asked *a, bool now)
{
    (void)now;
    gradus__v1__get_job_request__init(&a->body.get);
    a->body.get.job = a->job;
    a->msg.body = &a->body.get.base;
}

static void fill_cancel(struct page_asked *a, bool now)
{
    gradus__v1__cancel_request__init(&a->body.cancel);
    a->body.cancel.job = a->job;
    a->body.cancel.now = now;
    a->msg.body = &a->body.cancel.base;
}

static void fill_resume(struct page_asked *a, bool now)
{
    (void)now;
    gradus__v1__resume_request__init(&a->body.resume);
    a->body.resume.job = a->job;
    a->body.resume.sets = a->sets;
    a->body.resume.n_sets = a->set_count;
    a->msg.body = &a->body.resume.base;
}

static void fill_set(struct page_asked *a, bool now)
{
    (void)now;
    gradus__v1__set_job_request__init(&a->body.set);
    a->body.set.job = a->job;
    a->body.set.sets = a->sets;
    a->body.set.n_sets = a->set_count;
    a->msg.body = &a->body.set.base;
}

static void fill_timeline(struct page_asked *a, bool now)
{
    (void)now;
    gradus__v1__trace_job_request__init(&a->body.trace);
    a->body.trace.job = a->job;
    a->body.trace.steps = PICTURE_STEPS;
    a->body.trace.timeout_ms = PICTURE_MS;
    a->msg.body = &a->body.trace.base;
}

const struct page_change *page_change_find(const char *name)
{
    static const struct page_change changes[] = {
        {"cancel", JOBS "Cancel", "now", fill_cancel, run_cancel, HTTP_CHANGES},
        {"checkpoint", JOBS "Checkpoint", "", fill_get, run_checkpoint, HTTP_CHANGES},
        {"pause", JOBS "Pause", "", fill_get, run_pause, HTTP_CHANGES},
        {"resume", JOBS "Resume", "sets", fill_resume, run_resume, HTTP_CHANGES},
        {"set", JOBS "Set", "sets", fill_set, run_set, HTTP_CHANGES},
        {"timeline", JOBS "Trace", "", fill_timeline, run_trace, HTTP_COSTS}};
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        if (strcmp(changes[i].name, name) == 0) {
            return &changes[i];
        }
    }
    return NULL;
}

/* ---- bodies ---- */

static int read_sets(const struct json_t *value, struct page_asked *a, struct err *err)
{
    const size_t count = json_doc_count(value);
    if (!json_doc_is_array(value) || count > JOB_SETS_MAX) {
        return err_set(err, ERR_INVALID, "\"sets\" is a list of up to %d texts: \"KEY=VALUE\"",
                       JOB_SETS_MAX);
    }
    a->sets = mem_new(count + 1, sizeof *a->sets);
    for (size_t i = 0; i < count; i++) {
        const char *set = json_doc_text(json_doc_item(value, i));
        if (set == NULL) {
            return err_set(err, ERR_INVALID, "\"sets\"[%zu] is no text: \"KEY=VALUE\"", i);
        }
        a->sets[a->set_count++] = mem_strdup(set);
    }
    return 0;
}

static int read_members(const struct page_change *c, const struct json_t *object,
                        struct page_asked *a, bool *now, struct err *err)
{
    void *at = NULL;
    const struct json_t *value = NULL;
    const char *key;
    while ((key = json_doc_next(object, &at, &value)) != NULL) {
        int rc = 0;
        if (strcmp(key, c->keys) != 0) {
            rc = err_set(err, ERR_INVALID, "unknown key \"%.64s\"; %s takes %s", key, c->name,
                         c->keys[0] == '\0' ? "none" : c->keys);
        } else if (strcmp(key, "sets") == 0) {
            rc = read_sets(value, a, err);
        } else if (!json_doc_bool(value, now)) {
            rc = err_set(err, ERR_INVALID, "\"%s\" is true or false", key);
        }
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}

int page_change_read(const struct page_change *c, const struct buf *body, struct page_asked *a,
                     struct err *err)
{
    struct json_t *root = NULL;
    struct err failure = {0};
    bool now = false;
    int rc = 0;
    if (body->len > 0 && json_doc_parse(body->data, body->len, &root, &failure) != 0) {
        return err_set(err, ERR_INVALID, "the body: %s", failure.msg);
    }
    rc = root == NULL ? 0 : read_members(c, root, a, &now, err);
    json_doc_free(root);
    if (rc == 0) {
        c->fill(a, now);
        a->run = c->run;
    }
    return rc;
}
