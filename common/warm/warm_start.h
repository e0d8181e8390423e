/* SPDX-License-Identifier: Apache-2.0 */
/* A warm start: the values that the variables of a job begin with because its file says `from`.
 *
 * Who brings them opens the source, which checks everything that can be wrong but the values
 * themselves, and loads them. Two processes that load the same values have the same fingerprint.
 * Rows of tables are not brought: there may be a hundred million of them, and each shard needs
 * those of its keys alone. Its server reads them while it opens the shard, as it restores rows
 * (warm_rows.h); a worker only says of which checkpoint, by a checksum, so that all servers and
 * each new beginning have the same rows.
 *
 * Owner: one thread.
 *
 * Workers read the source, as they read data, and bring its values as they bring those that only
 * workers know (decision 63, worker_fill.h). So one way serves checkpoints, safetensors and ONNX
 * files, for layers, imported graphs and programs. Servers would need rights to files that only
 * workers have, and a second form of each reader. Nothing remembers the source: a shard is full or
 * it is not, so a job that goes on from its checkpoint cannot load it again. No worker brings
 * slots: they begin as in any job. */
#ifndef GRADUS_WARM_WARM_START_H
#define GRADUS_WARM_WARM_START_H

#include "data/data_roots.h"
#include "job/spec/job_spec.h"

struct warm_start;

/* Opens the source for the @count variables (borrowed) of a job with job_spec_has_from(). @roots:
 * where this process reads data; NULL: anywhere. Errors: those of warm_source_open() and
 * warm_match(), with the key of the job file and the path. */
int warm_start_open(const struct job_spec *spec, const struct data_roots *roots,
                    const struct variable_spec *variables, size_t count, struct warm_start **out,
                    struct err *err);
void warm_start_close(struct warm_start *w); /* NULL is fine */

/* "all 6 variables from checkpoint /data/digits-1/step-000000500"; what was not taken, and why.
 * Borrows. */
const char *warm_start_summary(const struct warm_start *w);
/* The checkpoint that has rows for tables of the job, as any process of this host names it
 * (borrowed), and the checksum of its manifest; NULL: none is taken. */
const char *warm_start_rows(const struct warm_start *w, uint64_t *manifest);
/* With from.slots: how many updates the slots of that checkpoint have seen; else 0. */
uint64_t warm_start_version(const struct warm_start *w);
/* Loads the values of each variable that has some into @values [count]; others stay as they are.
 * NULL: values are only read and checked. @fingerprint: of the variables that have values, of these
 * values, and of the checkpoint of warm_start_rows(); never 0. Errors: ERR_INVALID a value that is
 * not finite; those of files; ERR_EXHAUSTED. */
int warm_start_load(const struct warm_start *w, float *const *values, uint64_t *fingerprint,
                    struct err *err);

#endif
