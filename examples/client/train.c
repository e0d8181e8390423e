/* SPDX-License-Identifier: Apache-2.0 */
/* Trains a job from a program in C: submits a job file to the master that GRADUS_MASTER names,
 * shows how it goes on, and prints the size of every variable of the result.
 *
 *   make -C examples/client
 *   GRADUS_MASTER=127.0.0.1:7000 examples/client/train job.yaml training.epochs=3 */
#include <gradus/client.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static int show(void *ctx, const struct gradus_job_status *job)
{
    (void)ctx;
    printf("%-10s step %" PRIu64 "/%" PRIu64, job->state_name, job->steps, job->steps_total);
    for (size_t i = 0; i < job->test_count; i++) {
        printf("  test %s %.4f", job->test[i].name, job->test[i].value);
    }
    printf("%s%s\n", job->reason[0] != '\0' ? "  " : "", job->reason);
    return 0;
}

static int show_values(void *ctx, const struct gradus_values *variable)
{
    double squares = 0;
    (void)ctx;
    for (uint64_t i = 0; i < variable->count; i++) {
        squares += (double)variable->values[i] * variable->values[i];
    }
    printf("%-16s %8" PRIu64 " numbers, norm %.4f\n", variable->name, variable->count,
           sqrt(squares));
    return 0;
}

/* The whole file, or NULL. */
static char *read_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    char *text = calloc(1, (1U << 20) + 1); /* job files are at most 1 MiB */
    if (f == NULL || text == NULL || fread(text, 1, 1U << 20, f) == 0) {
        free(text);
        text = NULL;
    }
    if (f != NULL) {
        (void)fclose(f);
    }
    return text;
}

int main(int argc, char **argv)
{
    char *text = argc > 1 ? read_file(argv[1]) : NULL;
    if (text == NULL) {
        fprintf(stderr, "usage: train JOB.yaml [KEY=VALUE]...\n");
        return 2;
    }
    struct gradus_submission submission = {
        .size = sizeof submission,
        .text = text,
        .name = argv[1],
        .sets = (const char *const *)(argv + 2),
        .set_count = (size_t)argc - 2,
    };
    struct gradus_client *client = NULL;
    char job[GRADUS_JOB_ID_BYTES];
    int rc = gradus_client_open(NULL, &client);
    rc = rc != GRADUS_CLIENT_OK ? rc : gradus_client_submit(client, &submission, job);
    rc = rc != GRADUS_CLIENT_OK ? rc : gradus_client_watch(client, job, show, NULL);
    rc = rc != GRADUS_CLIENT_OK ? rc : gradus_client_values(client, job, show_values, NULL);
    if (rc != GRADUS_CLIENT_OK) {
        fprintf(stderr, "train: %s\n", gradus_client_error(client));
    }
    gradus_client_close(client);
    free(text);
    return rc == GRADUS_CLIENT_OK ? 0 : 1;
}
