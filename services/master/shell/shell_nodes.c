/* SPDX-License-Identifier: Apache-2.0 */
/* The beginning of every question to the nodes of a job: finds the job, which has to run, and the
 * addresses of its nodes. */
#include <string.h>

#include "master/shell/shell.h"
#include "os/chrono.h"

int shell_running_job(struct shell *s, const char *id, const char *what,
                      const struct job_record **out, struct err *err)
{
    *out = master_job(s->master, id, chrono_now_ms());
    if (*out == NULL) {
        struct buf packed = {0};
        int rc = s->store->ops->get(s->store, id, &packed, err);
        buf_release(&packed);
        return rc == 0               ? err_set(err, ERR_STATE, "job %s has ended", id)
               : rc == ERR_NOT_FOUND ? err_set(err, rc, "no job %.128s", id)
                                     : rc;
    }
    if ((*out)->state != JOB_RUNNING) {
        return err_set(err, ERR_STATE, "job %s is %s; only a running job can be %s", (*out)->id,
                       job_state_name((*out)->state), what);
    }
    return 0;
}

bool shell_find_node(struct shell *s, const char *id, struct master_node_info *out)
{
    bool found = false;
    struct master_node_info info;
    for (size_t i = 0; master_node_at(s->master, i, chrono_now_ms(), &info); i++) {
        if (strcmp(info.id, id) == 0 && (!found || info.alive)) {
            *out = info;
            found = true;
        }
    }
    return found;
}
