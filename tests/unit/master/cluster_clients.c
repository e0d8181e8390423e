/* SPDX-License-Identifier: Apache-2.0 */
/* What clients ask the master's core for. */
#include "cluster.h"

#include "base/mem.h"

void cluster_spec(struct job_spec *spec, const char *name, const char *const *sets, size_t count)
{
    struct buf text = {0};
    buf_printf(&text,
               "name: %s\ndata:\n  train: {file: a.csv}\nmodel:\n  layers:\n    - dense: "
               "{units: 8}\n    - relu\n    - dense: {units: 3}\n  loss: softmax_cross_entropy\n"
               "  metrics: [accuracy]\nupdate:\n  rule: sgd\ntraining:\n  batch_size: 5\n"
               "  replicas: 3\n  epochs: 3\n  split_batches: 2\ncluster:\n  workers: 2\n  ps: 2\n",
               name);
    struct diags d = {0};
    if (job_spec_parse(buf_str(&text), text.len, "test", sets, count, spec, &d) < 0) {
        struct buf out = {0};
        diags_format(&d, &out);
        fail_msg("%s", buf_str(&out));
    }
    diags_release(&d);
    buf_release(&text);
}

int cluster_try(struct cluster *c, const char *name, const char *const *sets, size_t count,
                char id[64])
{
    struct job_spec spec = {0};
    cluster_spec(&spec, name, sets, count);
    struct master_event e = {.kind = MASTER_SUBMIT, .request = ++c->request};
    e.submit = (struct master_submit_event){.spec = &spec, .request_id = "", .owner = c->submitter};
    cluster_event(c, &e);
    job_spec_release(&spec);
    snprintf(id, 64, "%s", c->reply_text);
    return c->reply.err.code;
}

void cluster_submit(struct cluster *c, const char *name, char id[64], const char *const *sets,
                    size_t count)
{
    assert_int_equal(cluster_try(c, name, sets, count, id), 0);
}

int cluster_cancel(struct cluster *c, const char *id, bool now)
{
    struct master_event e = {.kind = MASTER_CANCEL, .request = ++c->request};
    e.cancel = (struct master_cancel_event){id, now};
    cluster_event(c, &e);
    return c->reply.err.code;
}

static size_t free_request(const struct cluster *c)
{
    size_t k = 0;
    while (c->waiting[k] != 0 || c->answered[k]) {
        k++;
    }
    return k;
}

size_t cluster_ask_checkpoint(struct cluster *c, const char *id)
{
    const size_t k = free_request(c);
    struct master_event e = {.kind = MASTER_CHECKPOINT, .request = 2000000000 + k};
    c->waiting[k] = e.request;
    e.job = id;
    cluster_event(c, &e);
    return k;
}

size_t cluster_set(struct cluster *c, const char *id, const char *const *sets, size_t count)
{
    const size_t k = free_request(c);
    const struct job_record *r = cluster_job(c, id);
    struct job_spec spec = {0};
    struct diags d = {0};
    assert_int_equal(job_spec_parse(r->text, strlen(r->text), "job", sets, count, &spec, &d), 0);
    diags_release(&d);
    char *base = mem_strdup(r->text);
    struct master_event e = {.kind = MASTER_SET, .request = 2000000000 + k};
    c->waiting[k] = e.request;
    e.set = (struct master_set_event){.job = id, .spec = &spec, .base = base};
    e.set.words = (struct job_set_words){"", (char *const *)(uintptr_t)sets, count};
    cluster_event(c, &e);
    job_spec_release(&spec);
    free(base);
    return k;
}

int cluster_answer(struct cluster *c, size_t k, uint64_t ms)
{
    for (uint64_t end = c->now + ms; !c->answered[k] && c->now < end;) {
        cluster_advance(c);
    }
    if (!c->answered[k]) {
        fail_msg("a request was not answered in %" PRIu64 " ms", ms);
    }
    c->answered[k] = false;
    return c->answer[k].code;
}

int cluster_ask(struct cluster *c, const char *id, enum master_event_kind kind)
{
    struct master_event e = {.kind = kind, .request = ++c->request};
    e.job = id;
    c->reply.err.code = -1; /* not answered yet */
    cluster_event(c, &e);
    return c->reply.err.code;
}

int cluster_resume(struct cluster *c, const char *id, const char *const *sets, size_t count)
{
    char *base = mem_strdup(cluster_job(c, id)->text);
    struct job_spec spec = {0};
    struct diags d = {0};
    assert_int_equal(job_spec_parse(base, strlen(base), "job", sets, count, &spec, &d), 0);
    diags_release(&d);
    struct master_event e = {.kind = MASTER_RESUME, .request = ++c->request};
    e.resume = (struct master_resume_event){.job = id, .spec = &spec, .base = base};
    c->reply.err.code = -1;
    cluster_event(c, &e);
    job_spec_release(&spec);
    free(base);
    return c->reply.err.code;
}
