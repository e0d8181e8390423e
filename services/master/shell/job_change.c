/* SPDX-License-Identifier: Apache-2.0 */
/* The file of a job with changes applied, for Jobs.Set and Jobs.Resume: parsed on the pool, since
 * that takes a while; what is wrong is answered there. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "job/spec/job_era.h"
#include "master/shell/boards.h"
#include "master/shell/shell.h"

/* another client changed the job while this one was parsed: hardly so often in a row */
#define TRIES_MAX 5
#define SHOWN_BYTES 256
#define SOURCE "--set "

static void forget_text(struct job_change *c)
{
    free(c->base);
    c->base = NULL;
    job_spec_release(&c->spec);
    c->spec = (struct job_spec){0};
}

static void free_change(void *data)
{
    struct job_change *c = data;
    forget_text(c);
    free(c->named);
    free(c);
}

void job_change_begin(struct request *r, const char *job, char *const *sets, size_t set_count)
{
    struct job_change *c = mem_new(1, sizeof *c);
    *c = (struct job_change){.job = job, .sets = sets, .set_count = set_count};
    r->data = c;
    r->free_data = free_change;
}

struct job_set_words job_change_words(const struct request *r)
{
    const struct job_change *c = r->data;
    const struct auth_identity *who = request_caller(r).who;
    return (struct job_set_words){
        .by = who->proof == AUTH_OPEN ? "" : who->name, .sets = c->sets, .set_count = c->set_count};
}

bool job_change_again(const struct request *r, const struct err *err)
{
    const struct job_change *c = r->data;
    return err->code == ERR_ABORTED && c->tries < TRIES_MAX;
}

int job_change_absent(struct shell *s, const char *job, const char *away, struct err *err)
{
    struct buf packed = {0};
    int rc = s->store->ops->get(s->store, job, &packed, err);
    buf_release(&packed);
    if (rc == 0) {
        return err_set(err, ERR_STATE, "job %.128s %s", job, away);
    }
    return rc == ERR_NOT_FOUND ? err_set(err, rc, "no job %.128s", job) : rc;
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

/* Why @key cannot be what it is set to; NULL: it can. @spec: what was parsed. */
static const char *refusal(const char *key, const struct job_spec *spec)
{
    const char *dir = spec->training.tensorboard;
    if (strcmp(key, "training.tensorboard") == 0 && dir != NULL && dir[0] != '\0' &&
        !boards_is_path(dir)) {
        return "it is a directory on the master's host; allowed: an absolute path without '..'";
    }
    return job_spec_fixed(key);
}

/* Keys that cannot change any more, but for those that are wrong anyway. */
static void refuse_fixed(const struct job_change *c, struct diags *diags)
{
    for (size_t i = 0; i < c->set_count; i++) {
        char shown[SHOWN_BYTES], source[SHOWN_BYTES + sizeof SOURCE];
        (void)snprintf(source, sizeof source, SOURCE "%s",
                       text_shown(c->sets[i], shown, sizeof shown));
        char *key = mem_strdup(c->sets[i]);
        key[strcspn(key, "=")] = '\0';
        const char *why = refusal(key, &c->spec);
        if (why != NULL && !reported(diags, source)) {
            diags_add(diags, source, 0, 0, "%s", why);
        }
        free(key);
    }
}

/* What keys alone do not say. A base that cannot be read has nothing to compare with. */
static void check_change(const struct job_change *c, struct diags *diags)
{
    struct job_spec from = {0};
    struct diags of_base = {0};
    struct err err = {0};
    if (job_spec_parse(c->base, strlen(c->base), "base", NULL, 0, &from, &of_base) == 0 &&
        job_update_check_change(&from, &c->spec, &err) != 0) {
        diags_add(diags, c->job, 0, 0, "%s", err.msg);
    }
    job_spec_release(&from);
    diags_release(&of_base);
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
    struct job_change *c = r->data;
    const char **sets = mem_new(c->set_count + 1, sizeof *sets);
    for (size_t i = 0; i < c->set_count; i++) {
        sets[i] = c->sets[i];
    }
    char job[SHOWN_BYTES];
    struct diags diags = {0};
    (void)job_spec_parse(c->base, strlen(c->base), text_shown(c->job, job, sizeof job), sets,
                         c->set_count, &c->spec, &diags);
    free(sets);
    refuse_fixed(c, &diags);
    if (diags.count == 0) {
        check_change(c, &diags);
    }
    if (diags.count > 0) {
        fail_with(r, &diags);
    } else {
        request_post(r);
    }
    diags_release(&diags);
}

void job_change_parse(struct request *r, const char *text)
{
    struct job_change *c = r->data;
    struct err err = {0};
    forget_text(c);
    c->base = mem_strdup(text);
    c->tries++;
    r->run = c->parsed;
    if (pool_post(r->shell->pool, parse, r, &err) < 0) {
        request_fail(r, &err);
    }
}
