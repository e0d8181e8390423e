/* The settings of a service: defaults, then a YAML file (--config), then flags, all from the same
 * rows. A row "http_listen" is the key http_listen in the file and the flag --http-listen. */
#ifndef GRADUS_SERVICE_SETTINGS_H
#define GRADUS_SERVICE_SETTINGS_H

#include <stddef.h>

#include "base/buf.h"
#include "config/field.h"

#define SETTINGS_FILE_BYTES_MAX (1024 * 1024)

/* Rows and the struct that they describe. All borrowed. Paths have no dots and are unique over all
 * groups. */
struct settings_group {
    const char *title; /* in --help */
    const struct field *fields;
    size_t count;
    void *object;
};

struct settings {
    const char *program; /* "gradus-ps" */
    const char *summary;
    const struct settings_group *groups;
    size_t group_count;
};

/* What the command line asks for. */
enum settings_ask {
    SETTINGS_RUN,
    SETTINGS_HELP,
    SETTINGS_VERSION,
    SETTINGS_PRINT, /* --print-config: what would be in force */
    SETTINGS_PROBE, /* --probe HOST:PORT: is a service well? */
};

/* Fill the objects (zeroed memory; to be released with field_release() in any case). @probe borrows
 * from @argv. Errors: ERR_INVALID, with a line for each thing that is wrong in @problems. */
int settings_read(const struct settings *s, int argc, char **argv, enum settings_ask *ask,
                  const char **probe, struct buf *problems);
void settings_help(const struct settings *s, struct buf *out);
/* YAML that settings_read() reads back to the same values. */
void settings_print(const struct settings *s, struct buf *out);

#endif
