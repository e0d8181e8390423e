/* SPDX-License-Identifier: Apache-2.0 */
/* Looks for a checkpoint that can be restored, before anything is started for it: reads all of its
 * files, as those who restore it do. */
#include <stdlib.h>

#include "base/mem.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoint_dir.h"

/* Reads all of the checkpoint. */
static int check(const char *path, struct err *err)
{
    struct checkpoint *c = NULL;
    int rc = checkpoint_open(path, CHECKPOINT_FULL, &c, err);
    checkpoint_close(c);
    return rc;
}

int checkpoint_find_whole(const char *dir, char **path, struct err *err)
{
    struct err newest = {0};
    char **damaged = NULL;
    size_t count = 0, capacity = 0;
    int rc = ERR_CORRUPT;
    while (rc == ERR_CORRUPT) {
        char *found = NULL;
        struct err why = {0};
        rc = checkpoint_find(dir, (const char *const *)damaged, count, &found, NULL, &why);
        rc = rc != 0 ? rc : check(found, &why);
        if (rc == ERR_CORRUPT) {
            newest = count == 0 ? why : newest;
            damaged = mem_grow(damaged, &capacity, count + 1, sizeof *damaged);
            damaged[count++] = found;
        } else if (rc == 0) {
            *path = found;
        } else {
            free(found);
            rc = rc == ERR_NOT_FOUND && count > 0 ? err_set(err, ERR_CORRUPT, "%s", newest.msg)
                                                  : err_set(err, rc, "%s", why.msg);
            break;
        }
    }
    while (count > 0) {
        free(damaged[--count]);
    }
    free(damaged);
    return rc;
}
