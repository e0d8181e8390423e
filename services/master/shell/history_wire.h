/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of what was changed of a job, and back. */
#ifndef GRADUS_MASTER_SHELL_HISTORY_WIRE_H
#define GRADUS_MASTER_SHELL_HISTORY_WIRE_H

#include "gradus/v1/jobs.pb-c.h"
#include "master/core/job_record.h"

/* Messages that point into what they are made of. */
struct era_wire {
    Gradus__V1__Era *items, **list;
};
void era_wire_init(struct era_wire *w, const struct job_era *eras, size_t count);
void era_wire_release(struct era_wire *w); /* zeroed is fine */

struct change_wire {
    Gradus__V1__JobChange *items, **list;
};
void change_wire_init(struct change_wire *w, const struct job_history *h);
void change_wire_release(struct change_wire *w); /* zeroed is fine */

struct handover_wire {
    Gradus__V1__Handover message;
    Gradus__V1__HandoverPin pin;
    Gradus__V1__Ledger ledger, pin_ledger;
    Gradus__V1__HandoverNode *items, **lists[3];
};
void handover_wire_init(struct handover_wire *w, const struct job_handover *h);
void handover_wire_release(struct handover_wire *w);
/* @h is zeroed; it stays so where @message says nothing. Errors: ERR_CORRUPT. */
int handover_from_proto(const Gradus__V1__Handover *message, struct job_handover *h,
                        struct err *err);

/* What the row of a job says; @h is empty. */
void history_from_proto(const Gradus__V1__Job *j, struct job_history *h);

#endif
