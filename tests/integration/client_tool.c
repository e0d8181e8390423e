/* SPDX-License-Identifier: Apache-2.0 */
/* Every function of include/gradus/client.h as a command, for test_client_library.py:
 *
 *   client_tool MASTER COMMAND [ARGUMENTS]
 *
 * Prints what comes; an error is "CODE: text" on standard error, and exit code 1. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gradus/client.h"

static int enough = -1; /* callbacks return 1 after so many; below 0: never */

static int another(void)
{
    return enough >= 0 && --enough < 0;
}

static int show(void *ctx, const struct gradus_job_status *j)
{
    (void)ctx;
    printf("%s %s %d %" PRIu64 "/%" PRIu64 " %.2f/%.2f", j->id, j->state_name, j->state, j->steps,
           j->steps_total, j->epochs, j->epochs_total);
    for (size_t i = 0; i < j->train_count; i++) {
        printf(" train.%s=%.6g", j->train[i].name, j->train[i].value);
    }
    for (size_t i = 0; i < j->test_count; i++) {
        printf(" test.%s=%.6g", j->test[i].name, j->test[i].value);
    }
    printf(" [%s] [%s] %zu\n", j->reason, j->checkpoint, j->size);
    (void)fflush(stdout);
    return another();
}

static int show_values(void *ctx, const struct gradus_values *v)
{
    (void)ctx;
    double sum = 0;
    for (uint64_t i = 0; i < v->count; i++) {
        sum += (double)v->values[i];
    }
    printf("%s", v->name);
    for (size_t d = 0; d < v->rank; d++) {
        printf(" %" PRIu64, v->dims[d]);
    }
    printf(" = %" PRIu64 " at %" PRIu64 ": %.9g\n", v->count, v->step, sum);
    return another();
}

static int submit(struct gradus_client *c, char **args, size_t count, const char *request_id)
{
    char job[GRADUS_JOB_ID_BYTES];
    static char text[1 << 16];
    FILE *f = fopen(args[0], "re");
    if (f == NULL || fread(text, 1, sizeof text - 1, f) == 0) {
        abort();
    }
    (void)fclose(f);
    struct gradus_submission s = {.size = sizeof s,
                                  .text = text,
                                  .name = args[0],
                                  .sets = (const char *const *)args + 1,
                                  .set_count = count - 1,
                                  .request_id = request_id};
    int rc = gradus_client_submit(c, &s, job);
    if (rc == GRADUS_CLIENT_OK) {
        printf("%s\n", job);
    }
    return rc;
}

static int with_job(struct gradus_client *c, const char *command, const char *job)
{
    struct gradus_job_status status;
    if (strcmp(command, "job") == 0) {
        int rc = gradus_client_job(c, job, &status);
        return rc == GRADUS_CLIENT_OK ? show(NULL, &status) : rc;
    }
    return strcmp(command, "watch") == 0    ? gradus_client_watch(c, job, show, NULL)
           : strcmp(command, "wait") == 0   ? gradus_client_watch(c, job, NULL, NULL)
           : strcmp(command, "cancel") == 0 ? gradus_client_cancel(c, job, 0)
           : strcmp(command, "stop") == 0   ? gradus_client_cancel(c, job, 1)
           : strcmp(command, "pause") == 0  ? gradus_client_pause(c, job)
           : strcmp(command, "resume") == 0 ? gradus_client_resume(c, job)
           : strcmp(command, "values") == 0 ? gradus_client_values(c, job, show_values, NULL)
                                            : 1;
}

static int run(struct gradus_client *c, const char *command, char **args, size_t count)
{
    if (strcmp(command, "list") == 0) {
        return gradus_client_list(c, count > 0 ? args[0] : NULL, 0, show, NULL);
    }
    if (strcmp(command, "submit") == 0) {
        return submit(c, args, count, NULL);
    }
    if (strcmp(command, "once") == 0) {
        return submit(c, args + 1, count - 1, args[0]);
    }
    if (strcmp(command, "empty") == 0) { /* a submission of before there was anything in it */
        struct gradus_submission s = {.size = sizeof s.size, .text = "not to be read"};
        char job[GRADUS_JOB_ID_BYTES];
        return gradus_client_submit(c, &s, job);
    }
    if (strcmp(command, "set") == 0) {
        return gradus_client_set(c, args[0], (const char *const *)args + 1, count - 1);
    }
    return with_job(c, command, count > 0 ? args[0] : NULL);
}

int main(int argc, char **argv)
{
    struct gradus_client_options options = {.size = sizeof options};
    struct gradus_client *c = NULL;
    if (argc < 3 || gradus_client_abi() != GRADUS_CLIENT_ABI) {
        return 2;
    }
    options.master = strcmp(argv[1], "-") == 0 ? NULL : argv[1];
    const char *patience_ms = getenv("CLIENT_TOOL_MS"); /* for whom nobody answers */
    options.timeout_ms = patience_ms != NULL ? (unsigned)strtoul(patience_ms, NULL, 10) : 60000;
    const char *limit = getenv("CLIENT_TOOL_ENOUGH");
    enough = limit != NULL ? (int)strtol(limit, NULL, 10) : -1;
    if (gradus_client_open(NULL, NULL) != GRADUS_CLIENT_INVALID) {
        return 2;
    }
    int rc = gradus_client_open(options.master == NULL ? NULL : &options, &c);
    if (rc == GRADUS_CLIENT_OK) {
        rc = run(c, argv[2], argv + 3, (size_t)argc - 3);
    }
    if (rc < 0) {
        (void)fprintf(stderr, "%d: %s\n", rc, gradus_client_error(c));
    }
    gradus_client_close(c);
    return rc == 0 ? 0 : 1;
}
