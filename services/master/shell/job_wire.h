/* SPDX-License-Identifier: Apache-2.0 */
/* A job's record ↔ gradus.v1.Job: for clients and for the store. */
#ifndef GRADUS_MASTER_SHELL_JOB_WIRE_H
#define GRADUS_MASTER_SHELL_JOB_WIRE_H

#include "base/buf.h"
#include "base/err.h"
#include "gradus/v1/jobs.pb-c.h"
#include "master/core/job_record.h"

struct job_wire {
    Gradus__V1__Job job; /* borrows the strings of the record */
    void *memory;        /* of its arrays */
};

enum job_wire_part {
    JOB_WIRE_BRIEF = 0,
    JOB_WIRE_TEXT = 1,        /* with the job file */
    JOB_WIRE_EVALUATIONS = 2, /* with all evaluations */
    JOB_WIRE_LEDGERS = 4,     /* with every shard's ledger, which may be large */
    JOB_WIRE_ALL = 7,
};

/* @out is overwritten; job_wire_release(). @parts: bits of job_wire_part. */
void job_wire_init(struct job_wire *out, const struct job_record *record, unsigned parts);
void job_wire_release(struct job_wire *w);
#define JOB_WIRE_ROW_BYTES_MAX ((size_t)512 << 10)
/* Append the packed message with all parts, and the secret: for the store alone. One that is larger
 * goes without the shards' ledgers, which are only shown: whoever adopts a job hears those of its
 * shards. */
void job_wire_pack(const struct job_record *record, struct buf *out);
/* @record is uninitialised and filled on success. Errors: ERR_CORRUPT. */
int job_wire_unpack(const void *data, size_t n, struct job_record *record, struct err *err);

#endif
