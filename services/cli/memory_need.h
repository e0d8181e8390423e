/* SPDX-License-Identifier: Apache-2.0 */
/* The memory that the processes of a job take when all of them run on one host, and whether the
 * host has it: a job that does not fit is better refused at once than killed by the kernel in its
 * second hour. */
#ifndef GRADUS_CLI_MEMORY_NEED_H
#define GRADUS_CLI_MEMORY_NEED_H

#include "base/buf.h"
#include "cli/output_update.h"
#include "data/dataset.h"
#include "graph/model.h"
#include "os/host_memory.h"

enum memory_who { MEMORY_MASTER, MEMORY_PS, MEMORY_WORKER, MEMORY_SHARED, MEMORY_WHO_COUNT };

struct memory_row {
    enum memory_who who;
    const char *what;
    uint64_t bytes;  /* of one process */
    uint64_t places; /* processes that have it; of servers, the largest one's bytes are shown */
    uint64_t total;
};
#define MEMORY_ROWS_MAX 24

struct memory_need {
    struct memory_row rows[MEMORY_ROWS_MAX];
    size_t row_count;
    uint64_t total;
};

/* For @update's workers and servers. @train, @test may be NULL: not known, and not counted. */
void memory_need_of(const struct output_update *update, const struct model *model,
                    const struct dataset *train, const struct dataset *test,
                    struct memory_need *out);
bool memory_need_fits(const struct memory_need *need, const struct host_memory *host);
/* Writes a table of the needs, and of what the host has. */
void memory_need_text(const struct memory_need *need, const struct host_memory *host,
                      struct buf *out);

#endif
