#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/mem.h"

int cli_fail(const struct err *err)
{
    (void)fprintf(stderr, "gradus: %s\n", err->msg);
    switch (err->code) {
    case ERR_INVALID:
        return CLI_USAGE;
    case ERR_NOT_FOUND:
        return CLI_NOT_FOUND;
    case ERR_UNAVAILABLE:
    case ERR_TIMEOUT:
        return CLI_UNAVAILABLE;
    default:
        return CLI_FAILED;
    }
}

char *cli_state_dir(const char *given)
{
    if (given != NULL && given[0] != '\0') {
        return mem_strdup(given);
    }
    const char *state = getenv("XDG_STATE_HOME");
    if (state != NULL && state[0] == '/') {
        return file_join(state, "gradus");
    }
    const char *home = getenv("HOME");
    if (home != NULL && home[0] == '/') {
        return file_join(home, ".local/state/gradus");
    }
    return mem_strdup("gradus-state");
}
