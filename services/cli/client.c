#include "cli/client.h"

int client_open(struct client *c, const char *master, struct err *err)
{
    rpc_init();
    struct rpc_channel_options options = {.target = master};
    c->channel = rpc_channel_new(&options, err);
    if (c->channel == NULL) {
        rpc_shutdown();
        return err->code != 0 ? err->code : ERR_INVALID;
    }
    return 0;
}

void client_close(struct client *c)
{
    if (c->channel != NULL) {
        rpc_channel_free(c->channel);
        c->channel = NULL;
        rpc_shutdown();
    }
}

int client_call(struct client *c, const char *method, const ProtobufCMessage *body,
                unsigned timeout_ms, struct rpc_msg **reply, struct err *err)
{
    struct rpc_request request = {
        .service = &gradus__v1__jobs__descriptor,
        .method = method,
        .body = body,
        .timeout_ms = timeout_ms,
        .wait_for_ready = true,
    };
    int rc = rpc_call_blocking(c->channel, &request, reply, err);
    if (rc == ERR_TIMEOUT || rc == ERR_UNAVAILABLE) {
        return err_wrap(err, "the master cannot be reached at %s", rpc_channel_target(c->channel));
    }
    return rc;
}
