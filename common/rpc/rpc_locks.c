/* SPDX-License-Identifier: Apache-2.0 */
/* Switches off the search for deadlocks in gRPC's locks. They are Abseil's, and distributions build
 * Abseil with a help for its developers: each lock that is taken is put into one graph of the
 * process, behind one spin lock, to find orders that could deadlock. That cost a master of 1,000
 * nodes a seventh of its processor time. The function that switches it off is offered to C++ alone,
 * under a name that depends on how the library was built; where none of these names is found,
 * nothing is done. */
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#include "rpc/rpc_grpc.h"

#define IGNORE 0 /* value of absl::OnDeadlockCycle */

void rpc_locks_unwatched(void)
{
    static const char *const NAMES[] = {
        "_ZN4absl7debian329SetMutexDeadlockDetectionModeENS0_15OnDeadlockCycleE", /* Debian 12 */
        "_ZN4absl12lts_2022062329SetMutexDeadlockDetectionModeENS0_15OnDeadlockCycleE",
        "_ZN4absl29SetMutexDeadlockDetectionModeENS_15OnDeadlockCycleE",
    };
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++) {
        void (*set)(int mode) = NULL;
        void *symbol = dlsym(RTLD_DEFAULT, NAMES[i]);
        if (symbol != NULL) {
            /* POSIX allows this conversion and ISO C has no cast for it */
            memcpy(&set, &symbol, sizeof set);
            set(IGNORE);
            return;
        }
    }
}
