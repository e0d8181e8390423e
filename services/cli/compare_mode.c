/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/compare_mode.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

#define ALLOWED "sync, sync+backup, sync+speculation, bounded, bounded:N, async"

static const char *const gradients[] = {
    [TRAINING_SYNC] = "all of one version; a step takes as long as its slowest replica",
    [TRAINING_ASYNC] = "of any age; nobody waits for anybody",
    [TRAINING_BOUNDED] = "of any age, but nobody is further ahead than the bound",
};
static const char *const tunings[] = {
    [TRAINING_SYNC] = "as on one machine with so many times the batch; the same bits each time",
    [TRAINING_ASYNC] = "a smaller learning rate, the smaller the more workers; runs differ",
    [TRAINING_BOUNDED] = "the bound, and as async",
};

static void add_set(struct compare_mode *m, const char *key, const char *value)
{
    (void)snprintf(m->sets[m->set_count++], sizeof m->sets[0], "training.%s=%s", key, value);
}

static void start(struct compare_mode *m, enum training_mode mode, const char *word)
{
    add_set(m, "mode", word);
    m->gradients = gradients[mode];
    m->tuning = tunings[mode];
}

static int set_backup(struct compare_mode *m, const struct job_spec *spec, struct err *err)
{
    char number[24];
    const uint64_t replicas = job_spec_replicas(spec);
    if (replicas < 2) {
        return err_set(err, ERR_INVALID,
                       "mode sync+backup: the job has one replica; more workers "
                       "(--set cluster.workers=4) or training.replicas give it more");
    }
    (void)snprintf(number, sizeof number, "%" PRIu64, replicas);
    add_set(m, "replicas", number);
    (void)snprintf(number, sizeof number, "%" PRIu64, replicas - 1);
    add_set(m, "replicas_to_aggregate", number);
    m->gradients = "of one version; the replica that is last is dropped";
    m->tuning = "as sync with a smaller batch; records of the slow worker are seen less often";
    return 0;
}

static int parse_one(struct compare_mode *m, const struct job_spec *spec, struct err *err)
{
    int64_t bound;
    char number[24];
    if (strcmp(m->name, "sync") == 0 || strncmp(m->name, "sync+", 5) == 0) {
        start(m, TRAINING_SYNC, "sync");
        if (strcmp(m->name, "sync+backup") == 0) {
            return set_backup(m, spec, err);
        }
        if (strcmp(m->name, "sync+speculation") == 0) {
            add_set(m, "speculate", "true");
            m->gradients = "all of one version; others compute a late replica, too";
            return 0;
        }
        if (m->name[4] == '\0') {
            return 0;
        }
    } else if (strcmp(m->name, "async") == 0) {
        start(m, TRAINING_ASYNC, "async");
        return 0;
    } else if (strcmp(m->name, "bounded") == 0) {
        start(m, TRAINING_BOUNDED, "bounded");
        return 0;
    } else if (strncmp(m->name, "bounded:", 8) == 0 && text_to_int(m->name + 8, &bound)) {
        start(m, TRAINING_BOUNDED, "bounded");
        (void)snprintf(number, sizeof number, "%" PRId64, bound);
        add_set(m, "staleness", number);
        return 0;
    }
    return err_set(err, ERR_INVALID, "mode '%s' is unknown; allowed: " ALLOWED, m->name);
}

int compare_modes_parse(const char *list, const struct job_spec *spec,
                        struct compare_mode modes[COMPARE_MODES_MAX], size_t *count,
                        struct err *err)
{
    int rc = 0;
    *count = 0;
    for (const char *s = list; rc == 0; s++) {
        const size_t n = strcspn(s, ",");
        if (*count == COMPARE_MODES_MAX) {
            return err_set(err, ERR_INVALID, "more than %d modes", COMPARE_MODES_MAX);
        }
        struct compare_mode *m = &modes[(*count)++];
        *m = (struct compare_mode){.set_count = 0};
        if (n >= sizeof m->name) {
            return err_set(err, ERR_INVALID, "a mode of %zu characters; allowed: " ALLOWED, n);
        }
        memcpy(m->name, s, n);
        rc = parse_one(m, spec, err);
        s += n;
        if (*s == '\0') {
            break;
        }
    }
    return rc;
}
