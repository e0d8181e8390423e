/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the master for a command that names none: the one of this host, or of a `gradus run` that
 * goes on. */
#include "cli/client_common.h"

#include "base/buf.h"
#include "cli/places.h"
#include "service/service.h"

static int no_master(const struct places *places, bool local, struct err *err)
{
    if (places->given) {
        const char *dir = places->items[0].state_dir;
        struct buf hint = {0};
        places_start_hint(dir, &hint);
        int rc = err_set(err, ERR_NOT_FOUND, "no master runs in %s; `%s` starts one", dir,
                         buf_str(&hint));
        buf_release(&hint);
        return rc;
    }
    return err_set(err, ERR_UNAVAILABLE,
                   "no master answers at " SERVICE_MASTER_ADDRESS
                   "%s; name one with --master HOST:PORT (or GRADUS_MASTER), start one with "
                   "`gradus-master`, or train on this machine with `gradus run`",
                   local ? ", and no `gradus run` goes on" : "");
}

int client_open_common(struct client *c, const struct cli_common *common, bool local,
                       struct err *err)
{
    struct places places;
    const char *address = NULL;
    const struct tls_settings *tls = NULL;
    places_find(common, &places);
    for (size_t i = 0; i < places.count && address == NULL; i++) {
        bool of_run = !places.given && places.items[i].state_dir != NULL;
        address = of_run && !local ? NULL : places.items[i].address;
        tls = places.items[i].tls;
    }
    int rc = address != NULL ? client_open(c, address, tls, err) : no_master(&places, local, err);
    places_release(&places);
    return rc;
}
