/* SPDX-License-Identifier: Apache-2.0 */
/* The states of a job, and which may follow which. job_enter() asks here before each change and
 * refuses any other; a refusal is a mistake in the core. */
#include "master/core/job_record.h"

/*            ┌────────── nodes lost while starting ──────────┐
 *            ▼                                               │
 *  submit→ PENDING ──nodes there──▶ STARTING ──all ready──▶ RUNNING ◀──worker back──┐
 *            │                        │                      │ │  └──last worker──▶ RECOVERING
 *            │                        │                      │ │     worker, ps, master         │
 *            │                        │                      │ └─last checkpoint─▶ SUCCEEDED  │
 *            └──────── cancel ────────┴──────────────────────┴── cancel, error ───────────────┘
 *                                                    ▼
 *                                           CANCELLED or FAILED
 *
 * PENDING may fail: a change does not fit its data. From each of the four a job may be PAUSED, and
 * from there it is PENDING again, or ends; RUNNING and RECOVERING go back to PENDING when the job
 * makes way for one of a higher priority. A job that has ended is PENDING again when a client
 * resumes it, and for nothing else.
 */
static const unsigned ALLOWED[JOB_STATE_END] = {
    [JOB_PENDING] = 1u << JOB_STARTING | 1u << JOB_FAILED | 1u << JOB_CANCELLED | 1u << JOB_PAUSED,
    [JOB_STARTING] = 1u << JOB_PENDING | 1u << JOB_RUNNING | 1u << JOB_FAILED |
                     1u << JOB_CANCELLED | 1u << JOB_PAUSED,
    [JOB_RUNNING] = 1u << JOB_RECOVERING | 1u << JOB_SUCCEEDED | 1u << JOB_FAILED |
                    1u << JOB_CANCELLED | 1u << JOB_PENDING | 1u << JOB_PAUSED,
    [JOB_RECOVERING] = 1u << JOB_RUNNING | 1u << JOB_SUCCEEDED | 1u << JOB_FAILED |
                       1u << JOB_CANCELLED | 1u << JOB_PENDING | 1u << JOB_PAUSED,
    [JOB_PAUSED] = 1u << JOB_PENDING | 1u << JOB_FAILED | 1u << JOB_CANCELLED,
    [JOB_SUCCEEDED] = 1u << JOB_PENDING,
    [JOB_FAILED] = 1u << JOB_PENDING,
    [JOB_CANCELLED] = 1u << JOB_PENDING,
};

static const char *const NAMES[JOB_STATE_END] = {
    [JOB_PENDING] = "PENDING",       [JOB_STARTING] = "STARTING",   [JOB_RUNNING] = "RUNNING",
    [JOB_RECOVERING] = "RECOVERING", [JOB_SUCCEEDED] = "SUCCEEDED", [JOB_FAILED] = "FAILED",
    [JOB_CANCELLED] = "CANCELLED",   [JOB_PAUSED] = "PAUSED",
};

const char *job_state_name(enum job_state s)
{
    return s >= JOB_PENDING && s < JOB_STATE_END ? NAMES[s] : "UNKNOWN";
}

bool job_state_is_final(enum job_state s)
{
    return s == JOB_SUCCEEDED || s == JOB_FAILED || s == JOB_CANCELLED;
}

bool job_state_allows(enum job_state from, enum job_state to)
{
    return from >= JOB_PENDING && from < JOB_STATE_END && (ALLOWED[from] >> to & 1u) != 0;
}
