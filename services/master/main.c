/* SPDX-License-Identifier: Apache-2.0 */
/* gradus-master: queues jobs, gives them nodes, leads their training. */
#include "master/shell/master_shell.h"

extern const unsigned char gradus_descriptors[];
extern const unsigned char gradus_descriptors_end[];

int main(int argc, char **argv)
{
    const struct service service = {
        .name = "master",
        .summary = "Queues the jobs of a Gradus cluster and leads their training",
        .listen = SERVICE_MASTER_ADDRESS,
        .fields = master_fields,
        .field_count = master_field_count,
        .config_bytes = sizeof(struct master_settings),
        .descriptors = gradus_descriptors,
        .descriptors_bytes = (size_t)(gradus_descriptors_end - gradus_descriptors),
        .may_stand_by = true,
        .check = master_shell_check,
        .start = master_shell_start,
        .ready = master_shell_ready,
        .drain = master_shell_drain,
        .stop = master_shell_stop,
    };
    return service_main(argc, argv, &service);
}
