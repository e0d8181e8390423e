/* SPDX-License-Identifier: Apache-2.0 */
/* Asks the kernel what it has noted of one thread. */
#include "os/thread_load.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

bool thread_load_parse(const char *text, uint64_t *delay_ns)
{
    char *end = NULL;
    (void)strtoull(text, &end, 10);
    if (end == text || *end != ' ') {
        return false;
    }
    const char *second = end + 1;
    const unsigned long long delay = strtoull(second, &end, 10);
    if (end == second || *end != ' ') {
        return false;
    }
    *delay_ns = delay;
    return true;
}

struct thread_load thread_load(void)
{
    struct thread_load load = {0};
    struct rusage usage;
    if (getrusage(RUSAGE_THREAD, &usage) == 0) {
        load.switches = (uint64_t)usage.ru_nivcsw;
        load.sleeps = (uint64_t)usage.ru_nvcsw;
    }
    const int fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        char text[96];
        const ssize_t n = read(fd, text, sizeof text - 1);
        (void)close(fd);
        text[n > 0 ? n : 0] = '\0';
        load.has_delay = thread_load_parse(text, &load.delay_ns);
    }
    return load;
}
