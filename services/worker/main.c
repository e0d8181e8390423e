/* SPDX-License-Identifier: Apache-2.0 */
/* gradus-worker: computes gradients for the jobs of a cluster. */
#include "worker/job/worker_shell.h"

extern const unsigned char gradus_descriptors[];
extern const unsigned char gradus_descriptors_end[];

int main(int argc, char **argv)
{
    const struct service service = {
        .name = "worker",
        .summary = "Computes gradients for the jobs of a Gradus cluster",
        .fields = worker_fields,
        .field_count = worker_field_count,
        .config_bytes = sizeof(struct worker_settings),
        .few_connections = true, /* the master and the job's servers */
        .descriptors = gradus_descriptors,
        .descriptors_bytes = (size_t)(gradus_descriptors_end - gradus_descriptors),
        .start = worker_shell_start,
        .ready = worker_shell_ready,
        .drain = worker_shell_drain,
        .stop = worker_shell_stop,
    };
    return service_main(argc, argv, &service);
}
