/* SPDX-License-Identifier: Apache-2.0 */
/* Sends a job file to the master, for `gradus run` and `gradus submit`. A random number goes with
 * it, by which the master recognises a request that is repeated, so that it never makes two jobs of
 * one. */
#include "cli/submit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/job_paths.h"
#include "os/chrono.h"
#include "os/file.h"
#include "storage/storage.h"

#define SUBMIT_TIMEOUT_MS 15000

char *submit_data_dir(const struct job_spec *spec, bool moved)
{
    const char *dir = spec->data.dir;
    if (!job_paths_used(spec) || !(moved || job_paths_is_relative(dir))) {
        return NULL;
    }
    char *resolved = realpath(dir, NULL); /* no "./" and ".." when it is here */
    return resolved != NULL ? resolved : storage_absolute(dir);
}

static void make_request_id(char *out, size_t n)
{
    uint64_t random[2] = {chrono_now_ns(), (uint64_t)chrono_wall_ms()};
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random) {
        random[1] ^=
            chrono_now_ns(); /* the clock must do; it only has to differ from other submissions */
    }
    (void)snprintf(out, n, "%016" PRIx64 "%016" PRIx64, random[0], random[1]);
}

static void tell_never(const struct training_spec *t)
{
    if (t->checkpoint_every.count == 0 && t->checkpoint_within_ms == 0) {
        cli_note("no checkpoint is written before the end (training.checkpoint_every: never, "
                 "checkpoint_within: 0): a job that loses a parameter server begins again");
    }
}

int submit_job(struct client *client, const struct job_file *file, const struct cli_args *args,
               const char *request_id, uint64_t least, char **job, struct err *err)
{
    char drawn[40];
    if (rpc_channel_wait_ready(client->channel, client_timeout_ms(), err) != 0) {
        return err_wrap(err, "the master cannot be reached");
    }
    make_request_id(drawn, sizeof drawn);
    Gradus__V1__SubmitRequest request = GRADUS__V1__SUBMIT_REQUEST__INIT;
    char *data_dir = submit_data_dir(&file->spec, file->dir_moved);
    char **sets = mem_new(args->set_count + 4, sizeof *sets);
    for (size_t i = 0; i < args->set_count; i++) {
        sets[i] = mem_strdup(args->sets[i]);
    }
    request.file = client_text(file->path);
    request.text = file->text.data;
    request.sets = sets;
    request.n_sets = args->set_count;
    if (data_dir != NULL) {
        sets[request.n_sets++] = mem_printf("data.dir=%s", data_dir);
    }
    if (file->tensorboard != NULL) {
        sets[request.n_sets++] = mem_printf("training.tensorboard=%s", file->tensorboard);
    }
    if (file->from != NULL) { /* the id of a job, which workers do not know */
        sets[request.n_sets++] = mem_printf("from.checkpoint=%s", file->from);
        sets[request.n_sets++] = mem_strdup("from.best=false");
    }
    request.request_id = client_text(request_id[0] != '\0' ? request_id : drawn);
    request.number_least = least;
    struct rpc_msg *reply = NULL;
    int rc = client_call(client, "Submit", &request.base, client_at_least_ms(SUBMIT_TIMEOUT_MS),
                         &reply, err);
    if (rc == 0) {
        *job = mem_strdup(((const Gradus__V1__SubmitResponse *)reply->body)->job);
        tell_never(&file->spec.training);
    }
    rpc_msg_unref(reply);
    mem_free_texts(sets, request.n_sets);
    free(data_dir);
    return rc;
}

/* ---- notes about the cluster ---- */

void submit_count_nodes(struct client *client, struct cluster_counts *counts)
{
    Gradus__V1__NodesRequest request = GRADUS__V1__NODES_REQUEST__INIT;
    struct rpc_msg *reply = NULL;
    struct err err = {0};
    *counts = (struct cluster_counts){0};
    if (client_call(client, "Nodes", &request.base, client_timeout_ms(), &reply, &err) == 0) {
        const Gradus__V1__NodesResponse *r = (const Gradus__V1__NodesResponse *)reply->body;
        cluster_count(r->nodes, r->n_nodes, counts);
    }
    rpc_msg_unref(reply);
}

void submit_tell_missing(const struct cluster_counts *counts, const Gradus__V1__Job *job)
{
    struct job_spec spec = {0};
    struct diags diags = {0};
    struct buf note = {0};
    if (job_spec_parse(job->text, strlen(job->text), job->id, NULL, 0, &spec, &diags) == 0) {
        cluster_note(job, (uint64_t)spec.cluster.workers.min, (uint64_t)spec.cluster.ps, counts,
                     &note);
    }
    if (note.len > 0) {
        cli_say(buf_str(&note));
    }
    buf_release(&note);
    diags_release(&diags);
    job_spec_release(&spec);
}
