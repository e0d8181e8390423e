/* SPDX-License-Identifier: Apache-2.0 */
/* Whether somebody who waits polls before going to sleep, and for how long.
 *
 * To wake a thread on another processor takes 20 to 350 us, as the machine has it; who polls for
 * what is usually there sooner than that wins it, and takes a processor meanwhile. So: polling is
 * for waits that are usually short, it lasts at most twice the usual wait, and it ends where it
 * takes something from somebody: when more threads are known to compute on this host than there are
 * processors, and when the kernel says that this thread had to stand in line for one. After that it
 * pauses, for longer each time.
 *
 * A core: it has no clock, thread or file. One object for each thread that waits, all calls by that
 * thread. No errors, no memory.
 *
 * Where it is used (decision 61): a thread of a server polls its queue, and the thread of a job
 * polls its own connections in the place of the thread that otherwise waits for them, so nothing is
 * handed over and nobody is woken. Callbacks stay with one thread at a time, so no other code knows
 * of it. A thread yields the processor before each look. What polling costs somebody else cannot be
 * seen, so the thread's own time in line stands for it: a loader that takes the processor for a
 * tenth of a step is no reason to stop, a program that always wants it is. The first answer after a
 * pause still wakes a thread: to get it out of gRPC's queue before costs as much. */
#ifndef GRADUS_BASE_POLL_POLICY_H
#define GRADUS_BASE_POLL_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* Usual waits above it are slept through: beside them a wake-up is little. A server waits as long
 * as its workers compute. */
#define POLL_USUAL_NS_MAX UINT64_C(4000000)
#define POLL_FIXED_US_MAX 100000
/* The load is looked at so often. Trouble is that much of the time between in line, beyond what
 * each wake-up takes anyway; or, where nobody tells, so many switches. A thread that only now and
 * then wants the processor gets it from who polls at once, and that is no trouble. */
#define POLL_LOAD_NS UINT64_C(10000000)
#define POLL_DELAY_PARTS 5 /* a fifth */
#define POLL_WAKE_NS UINT64_C(20000)
#define POLL_SWITCHES_PER_SECOND 200
/* Pauses after trouble. */
#define POLL_PAUSE_NS_MIN UINT64_C(100000000)
#define POLL_PAUSE_NS_MAX UINT64_C(12800000000)

struct poll_setting {
    bool adapts; /* "auto"; otherwise: */
    uint64_t ns; /* poll so long before each sleep; 0: never */
};

/* "auto", "0" or a number of microseconds. Errors: ERR_INVALID. */
int poll_setting_parse(const char *text, struct poll_setting *out, struct err *err);

/* Why it polls or does not. */
enum poll_why {
    POLL_OFF,       /* the setting says never */
    POLL_FIXED,     /* the setting says how long */
    POLL_SOON,      /* the event usually comes soon */
    POLL_LATE,      /* the event usually does not come soon, or nobody knows yet */
    POLL_CROWDED,   /* more threads compute here than there are processors */
    POLL_PREEMPTED, /* other threads wanted the processor */
    POLL_MISSED,    /* the event came later than usual, again and again */
    POLL_WHY_COUNT,
};
extern const char *const poll_why_names[POLL_WHY_COUNT];

/* What a thread suffers from others that want its processor; differences count (thread_load.h). */
struct thread_load {
    uint64_t switches; /* involuntary ones */
    uint64_t sleeps;   /* voluntary ones */
    uint64_t delay_ns; /* ready to run, and not running */
    bool has_delay;    /* the kernel has /proc/thread-self/schedstat */
};

struct poll_policy {
    struct poll_setting setting;
    uint64_t usual_ns; /* running mean of the waits; each counts as 4 POLL_USUAL_NS_MAX at most */
    uint32_t misses;   /* running share of polls in vain, of 1024 */
    enum poll_why why; /* of the last decision */
    bool looked;       /* at the load, once */
    uint64_t looked_ns;
    struct thread_load load;
    enum poll_why trouble; /* why it pauses */
    uint64_t pause_ns;     /* of the last pause; 0: none yet */
    uint64_t resume_ns;    /* it polls again from then on */
};

void poll_policy_init(struct poll_policy *p, const struct poll_setting *setting);
/* At the beginning of a wait: is it time for poll_policy_load()? */
bool poll_policy_load_due(const struct poll_policy *p, uint64_t now_ns);
void poll_policy_load(struct poll_policy *p, uint64_t now_ns, const struct thread_load *load);
/* Call when a wait begins. Returns for how many ns to poll before going to sleep; 0: sleep at once.
 * @busy: threads on this host that are known to compute, this one included. */
uint64_t poll_policy_begin(struct poll_policy *p, uint64_t now_ns, unsigned busy,
                           unsigned processors);
/* At its end: it lasted @waited_ns, of which @polled_ns were polled at most. */
void poll_policy_end(struct poll_policy *p, uint64_t now_ns, uint64_t waited_ns,
                     uint64_t polled_ns);

#endif
