/* SPDX-License-Identifier: Apache-2.0 */
/* The command that runs this executable as the program of its own worker. */
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "worker/program/worker_program.h"

static void quote(struct buf *out, const char *text)
{
    buf_add_char(out, '\'');
    for (; *text != '\0'; text++) {
        if (*text == '\'') {
            buf_add_str(out, "'\\'");
        }
        buf_add_char(out, *text);
    }
    buf_add_char(out, '\'');
}

char *worker_program_plugins_command(const char *dir)
{
    struct buf out = {0};
    char self[PATH_MAX];
    const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = '\0';
    quote(&out, self);
    buf_add_str(&out, " " WORKER_PROGRAM_PLUGINS " ");
    quote(&out, dir);
    char *command = mem_strdup(buf_str(&out));
    buf_release(&out);
    return command;
}
