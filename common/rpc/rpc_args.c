/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of channels and servers. Numbers are measured; the reasons are beside them. */
#include "rpc/rpc_grpc.h"

static void add(struct rpc_args *args, const char *key, grpc_arg arg)
{
    union { /* gRPC only reads keys, but wants a pointer without const */
        const char *in;
        char *out;
    } name = {.in = key};
    arg.key = name.out;
    if (args->count < RPC_ARGS_MAX) {
        args->arg[args->count++] = arg;
    }
}

void rpc_args_add(struct rpc_args *args, const char *key, int value)
{
    add(args, key, (grpc_arg){.type = GRPC_ARG_INTEGER, .value.integer = value});
}

void rpc_args_add_text(struct rpc_args *args, const char *key, const char *value)
{
    union { /* as in add() */
        const char *in;
        char *out;
    } text = {.in = value};
    add(args, key, (grpc_arg){.type = GRPC_ARG_STRING, .value.string = text.out});
}

void rpc_args_common(struct rpc_args *args, size_t message_bytes_max, unsigned keepalive_ms)
{
    int bytes = message_bytes_max > INT32_MAX ? INT32_MAX : (int)message_bytes_max;
    rpc_args_add(args, GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, bytes);
    /* gRPC limits a message before it unpacks it, so 64 KiB of gzip could become 64 MiB; and
     * tensors do not shrink. Who compresses is told that this is not served. */
    rpc_args_add(args, GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
    rpc_args_add(args, GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET, 1 << GRPC_COMPRESS_NONE);
    /* Only with its probes of the bandwidth does the core let a peer send more than 64 KiB ahead;
     * without them each message that is larger waits for a round trip in the middle. */
    rpc_args_add(args, GRPC_ARG_HTTP2_BDP_PROBE, 1);
    rpc_args_add(args, GRPC_ARG_KEEPALIVE_TIME_MS, (int)keepalive_ms);
    rpc_args_add(args, GRPC_ARG_KEEPALIVE_TIMEOUT_MS, RPC_KEEPALIVE_TIMEOUT_MS);
    rpc_args_add(args, GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
    rpc_args_add(args, GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
    grpc_arg sockets;
    if (rpc_socket_argument(&sockets)) {
        add(args, GRPC_ARG_SOCKET_MUTATOR, sockets);
    }
}
