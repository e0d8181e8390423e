/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/submit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/chrono.h"
#include "base/mem.h"

#define SUBMIT_TIMEOUT_MS 15000

int submit_job(struct client *client, const struct job_file *file, const struct cli_args *args,
               char **job, struct err *err)
{
    uint64_t random[2] = {chrono_now_ns(), (uint64_t)chrono_wall_ms()};
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random) {
        random[1] ^=
            chrono_now_ns(); /* the clock must do; it only has to differ from other submissions */
    }
    char request_id[40];
    (void)snprintf(request_id, sizeof request_id, "%016" PRIx64 "%016" PRIx64, random[0],
                   random[1]);
    Gradus__V1__SubmitRequest request = GRADUS__V1__SUBMIT_REQUEST__INIT;
    char *name = mem_strdup(file->path);
    char **sets = mem_new(args->set_count + 1, sizeof *sets);
    for (size_t i = 0; i < args->set_count; i++) {
        sets[i] = mem_strdup(args->sets[i]);
    }
    request.file = name;
    request.text = file->text.data;
    request.sets = sets;
    request.n_sets = args->set_count;
    request.request_id = request_id;
    struct rpc_msg *reply = NULL;
    int rc = client_call(client, "Submit", &request.base, SUBMIT_TIMEOUT_MS, &reply, err);
    if (rc == 0) {
        *job = mem_strdup(((const Gradus__V1__SubmitResponse *)reply->body)->job);
    }
    rpc_msg_unref(reply);
    for (size_t i = 0; i < args->set_count; i++) {
        free(sets[i]);
    }
    free(sets);
    free(name);
    return rc;
}
