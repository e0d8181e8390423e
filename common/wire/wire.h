/* SPDX-License-Identifier: Apache-2.0 */
/* Our structs ↔ the messages of proto/gradus/v1, checked: what comes from a peer is refused with a
 * message that says what is wrong, and never trusted for a size.
 *
 * To the wire: the message borrows from the struct, which must outlive it; X_release() frees only
 * what was made for the message. From the wire: the struct owns everything; the message may go. */
#ifndef GRADUS_WIRE_WIRE_H
#define GRADUS_WIRE_WIRE_H

#include <stdbool.h>
#include <stdint.h>

#include "data/dataset.h"
#include "gradus/v1/trace.pb-c.h"
#include "gradus/v1/types.pb-c.h"
#include "graph/metric.h"
#include "job/progress/consistency.h"
#include "job/progress/fence.h"
#include "job/progress/ledger.h"
#include "job/plan/plan.h"
#include "job/progress/step_times.h"
#include "trace/trace.h"

#define WIRE_ID_BYTES_MAX 128 /* of ids and names, as types.proto says */

/* ---- ids ---- */

/* 1 to WIRE_ID_BYTES_MAX bytes of letters, digits, '.', '_' and '-', not beginning with '.' or '-',
 * so that an id is a file name, a label and a word of a command line. @what names it in the
 * message. Errors: ERR_INVALID. */
int wire_id_check(const char *id, const char *what, struct err *err);

/* ---- plan ---- */

/* @out is overwritten; wire_plan_release(@out). */
void wire_plan_to_proto(const struct plan *plan, Gradus__V1__Plan *out);
void wire_plan_release(Gradus__V1__Plan *p);
/* @out is overwritten on success; plan_release(@out). @in may be NULL (a missing field).
 * Errors: ERR_INVALID: names, shapes or kinds that cannot be, a row of a variable that is on no
 * shard or on two, a shard without a partition, partitions out of order; ERR_EXHAUSTED too many. */
int wire_plan_from_proto(const Gradus__V1__Plan *in, struct plan *out, struct err *err);

/* The variables of a model that a program computes, of none, too; @out borrows from @given. */
void wire_program_to_proto(const struct given_variables *given, Gradus__V1__ProgramModel *out);
void wire_program_release(Gradus__V1__ProgramModel *p);
/* @variables becomes an array of the caller's, which @out borrows. Errors: ERR_INVALID which is
 * wrong. */
int wire_program_from_proto(const Gradus__V1__ProgramModel *in, struct variable_spec **variables,
                            struct given_variables *out, struct err *err);

/* ---- ledger ---- */

/* @out borrows the counts of @ledger; nothing to release. */
void wire_ledger_to_proto(const struct ledger *ledger, Gradus__V1__Ledger *out);
/* @out is overwritten on success; ledger_release(@out). Errors: ERR_INVALID (missing, no records,
 * wrong number of splits, a split with more done than it has). */
int wire_ledger_from_proto(const Gradus__V1__Ledger *in, struct ledger *out, struct err *err);

/* ---- consistency ---- */

/* Nothing to release. */
void wire_consistency_to_proto(const struct consistency *c, Gradus__V1__Consistency *out);
/* @out is overwritten on success. Errors: ERR_INVALID (missing, or not one that consistency_check()
 * allows). */
int wire_consistency_from_proto(const Gradus__V1__Consistency *in, struct consistency *out,
                                struct err *err);

/* ---- fences ---- */

/* A secret of another length is none. */
struct fence wire_fence_from_proto(uint64_t opening, const ProtobufCBinaryData *secret);
/* Borrows from @fence. */
ProtobufCBinaryData wire_secret_to_proto(const struct fence *fence);

/* ---- data ---- */

/* @test may be NULL: no test source. @out borrows the dims of @train; nothing to release. */
void wire_data_to_proto(const struct dataset_info *train, const struct dataset_info *test,
                        Gradus__V1__DataInfo *out);
/* Fills @train and @test (records 0: no test source). Errors: ERR_INVALID. */
/* The names of sparse fields borrow from @in. */
int wire_data_from_proto(const Gradus__V1__DataInfo *in, struct dataset_info *train,
                         struct dataset_info *test, struct err *err);
/* Errors: ERR_STATE naming the first thing that differs, with both values: "train records: the job
 * has 60000, this node found 59999". */
int wire_data_compare(const Gradus__V1__DataInfo *expected, const Gradus__V1__DataInfo *found,
                      struct err *err);

/* ---- metrics ---- */

/* @out is overwritten; wire_metrics_release(@out). */
void wire_metrics_to_proto(const struct metrics *m, Gradus__V1__MetricSums *out);
void wire_metrics_release(Gradus__V1__MetricSums *p);
/* Into @m, which was initialised with the kinds of the job. @in may be NULL. Errors: ERR_INVALID.
 */
int wire_metrics_from_proto(const Gradus__V1__MetricSums *in, struct metrics *m, struct err *err);

/* ---- times ---- */

/* Nothing to release. */
void wire_step_times_to_proto(const struct step_times *t, Gradus__V1__StepTimes *out);
/* @in may be NULL: no steps. Times beyond all measure are cut. */
void wire_step_times_from_proto(const Gradus__V1__StepTimes *in, struct step_times *out);

/* ---- traces ---- */

struct wire_trace {
    Gradus__V1__TraceResponse response;
    Gradus__V1__Span *items, **list;
    char *workers[TRACE_WORKERS_MAX];
    char boot[TRACE_BOOT_BYTES];
};
/* With the clock as it is now. @spans (NULL: none) is borrowed; wire_trace_release(@out), which
 * must not be moved before. */
void wire_trace_to_proto(struct trace_spans *spans, struct wire_trace *out);
void wire_trace_release(struct wire_trace *w);

/* ---- words ---- */

/* The name in the proto ("RUNNING", "PS"); "UNKNOWN" for other numbers. */
const char *wire_state_name(Gradus__V1__JobState state);
const char *wire_role_name(Gradus__V1__NodeRole role);
/* enum training_mode ↔ Mode. From the wire: ERR_INVALID for other numbers. */
Gradus__V1__Mode wire_mode_to_proto(enum training_mode mode);
int wire_mode_from_proto(Gradus__V1__Mode in, enum training_mode *out, struct err *err);
/* enum staleness_policy ↔ StalenessPolicy. */
Gradus__V1__StalenessPolicy wire_policy_to_proto(enum staleness_policy policy);
int wire_policy_from_proto(Gradus__V1__StalenessPolicy in, enum staleness_policy *out,
                           struct err *err);

#endif
