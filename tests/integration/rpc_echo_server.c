/* SPDX-License-Identifier: Apache-2.0 */
/* The echo service as a process: prints its address, serves until its input ends. */
#include <stdio.h>

#include "support/echo_service.h"

int main(void)
{
    rpc_init();
    struct echo echo;
    echo_init(&echo);
    struct err err = {0};
    struct rpc_server_options options = {.message_bytes_max = 8 << 20, .grace_ms = 1000};
    struct rpc_server *server = echo_server(&echo, &options, &err);
    if (!server) {
        fprintf(stderr, "%s\n", err.msg);
        return 1;
    }
    rpc_server_set_serving(server, true);
    printf("%s\n", rpc_server_address(server, 0));
    fflush(stdout);
    while (getchar() != EOF) {
    }
    rpc_server_free(server);
    echo_release(&echo);
    rpc_shutdown();
    return 0;
}
