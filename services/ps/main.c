/* SPDX-License-Identifier: Apache-2.0 */
/* gradus-ps: holds parameters and applies updates to them. */
#include "ps/rpc/ps_service.h"

extern const unsigned char gradus_descriptors[];
extern const unsigned char gradus_descriptors_end[];

int main(int argc, char **argv)
{
    const struct service service = {
        .name = "ps",
        .summary = "Holds the parameters of jobs and applies updates to them",
        .fields = ps_fields,
        .field_count = ps_field_count,
        .config_bytes = sizeof(struct ps_settings),
        .local_socket = true,
        .few_connections = true, /* one connection per worker, and the master's */
        .descriptors = gradus_descriptors,
        .descriptors_bytes = (size_t)(gradus_descriptors_end - gradus_descriptors),
        .send_bytes_max =
            SIZE_MAX / 2, /* answers point into snapshots; on_exchange.c bounds them */
        .peer = ps_service_peer,
        .poll = ps_service_poll,
        .server_polls = true,
        .leave_ms = ps_service_leave_ms,
        .check = ps_service_check,
        .start = ps_service_start,
        .ready = ps_service_ready,
        .drain = ps_service_drain,
        .stop = ps_service_stop,
    };
    return service_main(argc, argv, &service);
}
