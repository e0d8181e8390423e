/* SPDX-License-Identifier: Apache-2.0 */
/* gradus list: the jobs of a master, or of all places that are known here. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/cli.h"
#include "cli/client_common.h"
#include "cli/find_job.h"
#include "cli/output.h"
#include "cli/terminal.h"
#include "json/json_write.h"
#include "os/chrono.h"
#include "wire/wire_json.h"

#define LIMIT_MAX 100000

struct options {
    struct cli_common common;
    int64_t limit;
    char *owner;
    int state;
};

/* Behind these come the states, in the order of JobState in types.proto. */
enum { ANY, UNFINISHED, FINISHED, FIRST_STATE };
static const char *const states[] = {"any",      "unfinished", "finished",   "pending",
                                     "starting", "running",    "recovering", "succeeded",
                                     "failed",   "cancelled",  "paused",     NULL};

static const struct field fields[] = {
    {.path = "limit",
     .type = FIELD_INT,
     .offset = offsetof(struct options, limit),
     .def = "100",
     .min = 1,
     .max = LIMIT_MAX,
     .help = "Newest jobs to show, of each place"},
    {.path = "owner",
     .type = FIELD_STRING,
     .offset = offsetof(struct options, owner),
     .def = "",
     .help = "Show the jobs of this submitter alone; empty: of all"},
    {.path = "state",
     .type = FIELD_ENUM,
     .offset = offsetof(struct options, state),
     .def = "any",
     .choices = states,
     .help = "Show the jobs in this state alone"},
};

static bool is_shown(const struct options *o, Gradus__V1__JobState state)
{
    bool ended = state == GRADUS__V1__JOB_STATE__SUCCEEDED ||
                 state == GRADUS__V1__JOB_STATE__FAILED ||
                 state == GRADUS__V1__JOB_STATE__CANCELLED;
    return o->state == ANY || (o->state == UNFINISHED && !ended) ||
           (o->state == FINISHED && ended) || (int)state == o->state - FIRST_STATE + 1;
}

/* The jobs of one place: of a few answers, or of rows. */
struct page {
    Gradus__V1__Job **jobs; /* the array is owned; the jobs are the replies', or (none) owned */
    size_t count, capacity;
    struct rpc_msg **replies;
    size_t reply_count, reply_capacity;
    bool more; /* there are others, which the limit keeps out */
};

static void page_release(struct page *p)
{
    for (size_t i = 0; p->reply_count == 0 && i < p->count; i++) {
        gradus__v1__job__free_unpacked(p->jobs[i], NULL);
    }
    for (size_t i = 0; i < p->reply_count; i++) {
        rpc_msg_unref(p->replies[i]);
    }
    free(p->jobs);
    free(p->replies);
}

/* Asks for one more answer, with the jobs behind those of the page. */
static int ask_more(struct client *client, const struct options *o, struct page *p, struct err *err)
{
    Gradus__V1__ListJobsRequest request = GRADUS__V1__LIST_JOBS_REQUEST__INIT;
    Gradus__V1__JobState wanted[FIRST_STATE + 8];
    struct rpc_msg *reply = NULL;
    for (int i = 1; o->state != ANY && i <= (int)GRADUS__V1__JOB_STATE__PAUSED; i++) {
        if (is_shown(o, (Gradus__V1__JobState)i)) {
            wanted[request.n_states++] = (Gradus__V1__JobState)i;
        }
    }
    request.states = wanted;
    request.limit = (uint32_t)((size_t)o->limit - p->count);
    request.owner = o->owner;
    if (p->count > 0) {
        request.before = p->jobs[p->count - 1]->id;
    }
    int rc = client_call(client, "List", &request.base, client_timeout_ms(), &reply, err);
    if (rc != 0) {
        return rc;
    }
    const Gradus__V1__ListJobsResponse *r = (const Gradus__V1__ListJobsResponse *)reply->body;
    p->replies = mem_grow(p->replies, &p->reply_capacity, p->reply_count + 1, sizeof(void *));
    p->replies[p->reply_count++] = reply;
    p->jobs = mem_grow(p->jobs, &p->capacity, p->count + r->n_jobs + 1, sizeof(void *));
    for (size_t i = 0; i < r->n_jobs; i++) {
        p->jobs[p->count++] = r->jobs[i];
    }
    p->more = r->more && r->n_jobs > 0;
    return 0;
}

static int ask(const struct place *place, const struct options *o, struct page *p, struct err *err)
{
    struct client client = {0};
    int rc = client_open(&client, place->address, place->tls, err);
    do {
        rc = rc != 0 ? rc : ask_more(&client, o, p, err);
    } while (rc == 0 && p->more && p->count < (size_t)o->limit);
    client_close(&client);
    return rc;
}

/* Drops rows that are not to be shown. */
static void keep_wanted(struct page *p, const struct options *o)
{
    size_t kept = 0;
    for (size_t i = 0; i < p->count; i++) {
        if (is_shown(o, p->jobs[i]->state) &&
            (o->owner[0] == '\0' || strcmp(p->jobs[i]->owner, o->owner) == 0)) {
            p->jobs[kept++] = p->jobs[i];
        } else {
            gradus__v1__job__free_unpacked(p->jobs[i], NULL);
        }
    }
    p->count = kept;
}

static int read_page(const struct place *place, const struct options *o, struct page *p,
                     struct err *err)
{
    if (place->address != NULL) {
        return ask(place, o, p, err);
    }
    const size_t limit = (size_t)o->limit;
    const bool all = o->state == ANY && o->owner[0] == '\0';
    int rc = find_rows(place->state_dir, all ? limit + 1 : LIMIT_MAX, &p->jobs, &p->count, err);
    if (rc == 0) {
        keep_wanted(p, o);
        p->more = p->count > limit;
        while (p->count > limit) {
            gradus__v1__job__free_unpacked(p->jobs[--p->count], NULL);
        }
    }
    return rc;
}

static void show_text(const struct places *places, const struct page *pages, struct buf *out)
{
    const struct output_view view = {.columns = terminal_columns(STDOUT_FILENO),
                                     .now_ms = chrono_wall_ms()};
    size_t shown = 0;
    bool more = false;
    for (size_t i = 0; i < places->count; i++) {
        more = more || pages[i].more;
        const struct place *at = &places->items[i];
        if (pages[i].count == 0) {
            continue;
        }
        if (!places->given) {
            struct buf heading = {0};
            buf_printf(&heading, "%s%s%s%s\n", shown > 0 ? "\n" : "",
                       at->state_dir != NULL ? "--state-dir " : "--master ",
                       at->state_dir != NULL ? at->state_dir : at->address,
                       at->address == NULL ? " (no master runs there now)" : "");
            terminal_wrap(buf_str(&heading), view.columns, out);
            buf_release(&heading);
        }
        output_jobs_text(pages[i].jobs, pages[i].count, &view, out);
        shown++;
    }
    if (shown == 0) {
        output_jobs_text(NULL, 0, &view, out);
    }
    if (more) {
        (void)fputs("There are older jobs, too: --limit says how many to show.\n", stderr);
    }
}

/* ListJobsResponse; each job has one key more, which says where it is. */
static void show_json(const struct places *places, const struct page *pages, struct buf *out)
{
    const char *comma = "";
    bool more = false;
    buf_add_str(out, "{\"jobs\":[");
    for (size_t i = 0; i < places->count; i++) {
        const struct place *at = &places->items[i];
        for (size_t k = 0; k < pages[i].count; k++) {
            buf_add_str(out, comma);
            comma = ",";
            wire_json(&pages[i].jobs[k]->base, out);
            out->len--; /* the brace */
            buf_add_str(out, at->state_dir != NULL ? ",\"stateDir\":" : ",\"master\":");
            json_add_text(out, at->state_dir != NULL ? at->state_dir : at->address);
            buf_add_char(out, '}');
        }
        more = more || pages[i].more;
    }
    buf_printf(out, "],\"more\":%s}\n", more ? "true" : "false");
}

static int list(const struct options *o, const struct places *places)
{
    struct page pages[PLACES_MAX + 2] = {{.jobs = NULL}};
    struct buf out = {0};
    int code = CLI_OK;
    for (size_t i = 0; i < places->count; i++) {
        struct err err = {0};
        if (read_page(&places->items[i], o, &pages[i], &err) != 0) {
            int failed = cli_fail(&err); /* one of many places failed: the others are shown */
            code = places->given ? failed : CLI_OK;
        }
    }
    if (code == CLI_OK) {
        (o->common.json ? show_json : show_text)(places, pages, &out);
        (void)fputs(buf_str(&out), stdout);
    }
    for (size_t i = 0; i < places->count; i++) {
        page_release(&pages[i]);
    }
    buf_release(&out);
    return code;
}

static int run(const struct cli_args *args)
{
    const struct options *o = args->options;
    struct places places;
    struct err err = {0};
    struct client none = {0};
    places_find(&o->common, &places);
    int code;
    if (places.count > 0) {
        code = list(o, &places);
    } else {
        (void)client_open_common(&none, &o->common, true, &err);
        client_close(&none);
        code = cli_fail(&err);
    }
    places_release(&places);
    return code;
}

const struct cli_command cmd_list = {
    .name = "list",
    .summary = "List jobs, newest first",
    .usage = "",
    .examples = "  gradus list\n  gradus list --limit 5 --json\n  gradus list --owner ann "
                "--state unfinished\n",
    .notes = "AGE is the time since a job was submitted, TIME how long it has trained.\n"
             "Without --master and --state-dir (and GRADUS_MASTER, GRADUS_STATE_DIR) the jobs of "
             "the master of this machine are listed and, below what to type for each place, those "
             "in the directories that `gradus run` has used, also where no master runs.",
    .shares = CLI_MASTER | CLI_JSON,
    .fields = fields,
    .field_count = sizeof fields / sizeof fields[0],
    .options_bytes = sizeof(struct options),
    .run = run,
};
