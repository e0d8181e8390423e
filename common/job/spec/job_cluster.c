/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of the job file's section `cluster`. */
#include "job/spec/job_internal.h"

static const char *const partitioners[] = {"fixed", "min_slice_bytes", "max_slice_bytes",
                                           "balanced", NULL};
static const char *const standbys[] = {"none", "follower", NULL};

#define NODES_MAX 1024 /* nodes of one kind in one job */

#define CLUSTER_AT(member) offsetof(struct cluster_spec, member)
const struct field job_cluster_fields[] = {
    {.path = "workers",
     .type = FIELD_RANGE,
     .offset = CLUSTER_AT(workers),
     .def = "1",
     .min = 1,
     .max = NODES_MAX,
     .help =
         "Processes that compute gradients, as many as are wanted; with a range such as 2..8 the "
         "job begins with 2 and takes up to 8 whenever they are free. A job that has begun goes "
         "on with fewer, also after a pause, 10 s after it could, and takes more as they join"},
    {.path = "ps",
     .type = FIELD_INT,
     .offset = CLUSTER_AT(ps),
     .def = "1",
     .min = 1,
     .max = NODES_MAX,
     .help =
         "Parameter servers that hold the variables. Changed while the job runs, it moves to as "
         "many by way of a checkpoint, as soon as they are there; until then it goes on with "
         "those that it has"},
    {.path = "standby",
     .type = FIELD_ENUM,
     .offset = CLUSTER_AT(standby),
     .def = "none",
     .choices = standbys,
     .help = "follower: each server's shard has a copy on another server, which makes every "
             "update with it and takes over when the server dies: no step is lost or made again, "
             "and another server gets the next copy"},
    {.path = "partitioner",
     .type = FIELD_ENUM,
     .offset = CLUSTER_AT(partitioner),
     .def = "balanced",
     .choices = partitioners,
     .help = "How variables are cut along their first axis: so that all servers hold as many "
             "bytes, where what has no more than slice_bytes stays whole; into a fixed number of "
             "parts; into parts of at least or of at most slice_bytes"},
    {.path = "partitions",
     .type = FIELD_INT,
     .offset = CLUSTER_AT(partitions),
     .def = "0",
     .max = 65536,
     .help =
         "Parts per variable for fixed (0 is 1); the most parts for the others (0 is no bound)"},
    {.path = "slice_bytes",
     .type = FIELD_BYTES,
     .offset = CLUSTER_AT(slice_bytes),
     .def = "256 KiB",
     .min = 4,
     .max = 1099511627776.0,
     .help = "The bytes that balanced, min_slice_bytes and max_slice_bytes mean"},
    {.path = "blas_threads",
     .type = FIELD_INT,
     .offset = CLUSTER_AT(blas_threads),
     .def = "1",
     .min = 1,
     .max = 256,
     .help =
         "Threads of the matrix library in each worker. It cuts products otherwise for more than "
         "one, and takes no more than there are processors: the last bits are those of 1 only "
         "with 1, and with more only where all workers have as many processors"},
};
const size_t job_cluster_field_count = sizeof job_cluster_fields / sizeof job_cluster_fields[0];
