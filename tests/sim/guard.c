/* SPDX-License-Identifier: Apache-2.0 */
/* Assertions that fail and memory that is not there end the run, not the program. */
#include "sim/guard.h"

#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct world *guarded;

/* Replaces the C library's, which ends the process. */
void __assert_fail(const char *assertion, const char *file, unsigned line, const char *function)
{
    if (guarded == NULL || guarded->escape == NULL) {
        fprintf(stderr, "%s:%u: %s: %s\n", file, line, function, assertion);
        abort();
    }
    const char *name = strrchr(file, '/');
    violated(guarded, INVARIANT_ASSERT, "%s:%u %s(): %s", name == NULL ? file : name + 1, line,
             function, assertion);
}

static void on_signal(int number)
{
    if (guarded == NULL || guarded->escape == NULL) {
        signal(number, SIG_DFL);
        raise(number);
        return;
    }
    violated(guarded, INVARIANT_CRASH, "signal %d", number);
}

void guard(struct world *w)
{
    static char stack[65536];
    stack_t alternative = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK | SA_NODEFER};
    guarded = w;
    sigaltstack(&alternative, NULL);
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
    sigaction(SIGFPE, &action, NULL);
}
