#include "cli/client.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"

#define ADDRESS_BYTES_MAX 1024

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

/* What the master wrote beside its state. */
static int read_address(const char *state_dir, struct buf *address, struct err *err)
{
    char *path = file_join(state_dir, "master.address");
    int rc = file_read(path, ADDRESS_BYTES_MAX, address, err);
    free(path);
    if (rc == ERR_NOT_FOUND) {
        return err_set(err, rc, "no master runs in %s", state_dir);
    }
    if (rc == 0 && address->len > 0 && address->data[address->len - 1] == '\n') {
        address->data[--address->len] = '\0';
    }
    return rc;
}

int client_open_common(struct client *c, const struct cli_common *common, struct err *err)
{
    if (common->master[0] != '\0' || common->state_dir[0] == '\0') {
        return client_open(c, common->master[0] != '\0' ? common->master : CLI_MASTER_ADDRESS, err);
    }
    struct buf address = {0};
    int rc = read_address(common->state_dir, &address, err);
    if (rc == 0) {
        rc = client_open(c, buf_str(&address), err);
    }
    buf_release(&address);
    return rc;
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
