/* SPDX-License-Identifier: Apache-2.0 */
/* A recorded trace as the picture of it that the page draws. */
#ifndef GRADUS_MASTER_SHELL_TIMELINE_WIRE_H
#define GRADUS_MASTER_SHELL_TIMELINE_WIRE_H

#include "gradus/v1/jobs.pb-c.h"
#include "gradus/v1/page.pb-c.h"
#include "timeline/timeline.h"

#define TIMELINE_WIRE_BOXES_MAX 12000 /* with more, the end of the time is left out */
#define TIMELINE_WIRE_PUSHES_MAX 4000

struct timeline_wire {
    Gradus__V1__Timeline timeline;
    Gradus__V1__TimelineBoxes boxes;
    Gradus__V1__TimelinePushes pushes;
    Gradus__V1__TimelineLane *lanes;
    struct timeline drawn;
};

/* Borrows @trace until timeline_wire_release(). */
void timeline_wire_init(struct timeline_wire *w, const Gradus__V1__TraceJobResponse *trace);
void timeline_wire_release(struct timeline_wire *w); /* zeroed is fine */

#endif
