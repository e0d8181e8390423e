/* SPDX-License-Identifier: Apache-2.0 */
/* sim: runs schedules from seeds, and says which fails. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "sim/guard.h"
#include "sim/scenario.h"
#include "sim/sim.h"

struct options {
    uint64_t from, count;
    bool one;    /* --seed */
    bool update; /* scenarios: write down what came */
    enum sim_mode mode;
    bool trace, keep_whole;
    unsigned jobs, minutes, failures;
};

static const char USAGE[] =
    "usage: sim [--seeds N] [--from S] [--mode MODE] [--jobs J] [--minutes M] [--failures N]\n"
    "       sim --seed S [--mode MODE] [--trace] [--whole]\n"
    "       sim [--update] SCENARIO...\n"
    "\n"
    "Runs N schedules (default 1000) from seed S on (default 1), in J processes (default: as many\n"
    "as there are processors), for M minutes at most. A schedule in which an invariant fails is\n"
    "shrunk and printed with its trace; after --failures of them (default 1) it is over.\n"
    "\n"
    "  MODE     sync, partial, speculate, async, bounded, change, sums; any: all but sums;\n"
    "           memory: any of these, with little memory for gradients;\n"
    "           all: each of these, in proportion; traced: the same, all with traces\n"
    "  --seed   run one schedule; --trace prints what happens, --whole does not shrink it\n"
    "\n"
    "A SCENARIO is a file of tests/sim/scenarios: a schedule and its trace, which must be the one\n"
    "that is written there; --update writes it.\n";

/* ---- one schedule ---- */

static void say(void *ctx, const char *text)
{
    (void)ctx;
    printf("  %s\n", text);
}

static void print_failure(struct world *w, const struct options *o, uint64_t seed)
{
    struct sim_schedule s;
    schedule_make(seed, o->mode, &s);
    if (world_run(w, &s, false)) {
        printf("seed %" PRIu64 " failed, and does not fail again: the run is not deterministic\n",
               seed);
        return;
    }
    enum sim_invariant which = w->broken;
    printf("seed %" PRIu64 " mode %s violates %s (%s)\n  %s\n", seed, sim_mode_names[o->mode],
           sim_invariant_names[which], sim_invariant_texts[which], w->why);
    if (!o->keep_whole) {
        shrink(w, &s);
        printf("shrunk to:\n");
    }
    schedule_print(&s, say, NULL);
    (void)world_run(w, &s, true);
    fflush(stdout);
}

static int run_one(struct world *w, const struct options *o)
{
    struct sim_schedule s;
    schedule_make(o->from, o->mode, &s);
    if (o->trace) {
        schedule_print(&s, say, NULL);
    }
    bool good = world_run(w, &s, o->trace);
    if (good) {
        printf("seed %" PRIu64 ": all held; %" PRIu64 " events, %" PRIu64 " ms\n", o->from,
               w->event_count, w->now_us / SIM_MS);
        return 0;
    }
    if (o->trace) {
        printf("seed %" PRIu64 " violates %s: %s\n", o->from, sim_invariant_names[w->broken],
               w->why);
    } else {
        print_failure(w, o, o->from);
    }
    return 1;
}

/* ---- many ---- */

struct tally { /* what a process has to say in the end */
    uint64_t runs, failed_count;
    uint64_t failed[32];
    struct sim_counts counts;
};

static double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void work(const struct options *o, unsigned index, int out)
{
    struct world *w = world_new();
    struct tally tally = {0};
    double end = o->minutes > 0 ? seconds_now() + o->minutes * 60.0 : 0;
    guard(w);
    for (uint64_t i = index; i < o->count; i += o->jobs) {
        struct sim_schedule s;
        schedule_make(o->from + i, o->mode, &s);
        if (!world_run(w, &s, false)) {
            tally.failed[tally.failed_count++] = o->from + i;
        }
        tally.runs++;
        if (tally.failed_count == 32 || tally.failed_count >= o->failures ||
            (end > 0 && (tally.runs & 63) == 0 && seconds_now() > end)) {
            break;
        }
    }
    tally.counts = w->counts;
    ssize_t n = write(out, &tally, sizeof tally);
    _exit(n == (ssize_t)sizeof tally ? 0 : 1);
}

static void add_counts(struct sim_counts *to, const struct sim_counts *from)
{
    uint64_t *a = (uint64_t *)to;
    const uint64_t *b = (const uint64_t *)from;
    for (size_t i = 0; i < sizeof *to / sizeof *a; i++) {
        a[i] += b[i];
    }
}

static void print_counts(const struct tally *t, double seconds)
{
    const struct sim_counts *c = &t->counts;
    printf("%" PRIu64 " schedules in %.1f s: %.0f per second, %.0f events each; %" PRIu64
           " violations\n",
           t->runs, seconds, (double)t->runs / seconds,
           t->runs == 0 ? 0 : (double)c->events / (double)t->runs, t->failed_count);
    printf(
        "messages %" PRIu64 ", updates %" PRIu64 ", duplicates %" PRIu64 ", dropped %" PRIu64
        ", old requests %" PRIu64 ", given up %" PRIu64 ", speculated %" PRIu64
        ", waits for memory %" PRIu64 ", checkpoints %" PRIu64 ", recoveries %" PRIu64
        ", moves to other servers %" PRIu64 ", stopped early %" PRIu64
        ", resumed after an end %" PRIu64 "\ntraces %" PRIu64 ", answered %" PRIu64
        ", of all nodes %" PRIu64 "\ntables: rows admitted %" PRIu64 ", evicted %" PRIu64
        ", without one %" PRIu64 ", pins given up %" PRIu64 ", restored %" PRIu64
        ", rows ahead %" PRIu64 ", deltas read %" PRIu64 "\nversions read by readers %" PRIu64
        ", records of primaries %" PRIu64 ", backups that took over %" PRIu64
        ", that joined and followed %" PRIu64 ", that did both %" PRIu64 "\nnodes drained %" PRIu64
        ", beside jobs that ran %" PRIu64 ", shards moved %" PRIu64 ", workers drained %" PRIu64
        "\nservers that might end %" PRIu64 ", from which others took over %" PRIu64 "\nfaults:",
        c->messages, c->steps, c->duplicates, c->dropped, c->old, c->given_up, c->speculated,
        c->memory_waits, c->checkpoints, c->recoveries, c->moves, c->stopped, c->resumed, c->traces,
        c->traces_answered, c->traces_whole, c->rows_admitted, c->rows_evicted, c->rows_dropped,
        c->pins_given_up, c->tables_restored, c->rows_ahead, c->deltas_read, c->versions_read,
        c->records_received, c->takeovers, c->joined, c->joined_takeovers, c->drained,
        c->drained_running, c->shards_moved, c->workers_drained, c->departed, c->departed_covered);
    for (uint32_t i = 0; i < FAULT_KIND_COUNT; i++) {
        printf(" %s %" PRIu64, sim_fault_names[i], c->faults[i]);
    }
    printf("\njobs:");
    for (uint32_t i = JOB_PENDING; i < JOB_STATE_END; i++) {
        if (c->states[i] > 0) {
            printf(" %s %" PRIu64, job_state_name((enum job_state)i), c->states[i]);
        }
    }
    printf("\n");
    fflush(stdout);
}

static int run_many(struct world *w, const struct options *o)
{
    struct tally all = {0};
    double begin = seconds_now();
    int pipes[64][2];
    bool broken = false;
    fflush(stdout);
    for (unsigned i = 0; i < o->jobs; i++) {
        if (pipe(pipes[i]) != 0) {
            perror("sim: pipe");
            return 2;
        }
        pid_t pid = fork();
        if (pid == 0) {
            work(o, i, pipes[i][1]);
        }
        close(pipes[i][1]);
        if (pid < 0) {
            perror("sim: fork");
            return 2;
        }
    }
    for (unsigned i = 0; i < o->jobs; i++) {
        struct tally t;
        broken = read(pipes[i][0], &t, sizeof t) != (ssize_t)sizeof t || broken;
        if (broken) {
            continue;
        }
        all.runs += t.runs;
        for (uint64_t k = 0; k < t.failed_count; k++) {
            if (all.failed_count < 32) {
                all.failed[all.failed_count++] = t.failed[k];
            }
        }
        add_counts(&all.counts, &t.counts);
    }
    while (wait(NULL) > 0) {
    }
    print_counts(&all, seconds_now() - begin);
    for (uint64_t k = 0; k < all.failed_count && k < o->failures; k++) {
        print_failure(w, o, all.failed[k]);
    }
    if (broken) {
        fprintf(stderr, "sim: a process did not come to its end\n");
    }
    return all.failed_count > 0 || broken ? 1 : 0;
}

/* ---- options ---- */

static uint64_t number(const char *text)
{
    char *end;
    errno = 0;
    unsigned long long n = strtoull(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0') {
        fprintf(stderr, "sim: '%s' is no number\n%s", text, USAGE);
        exit(2);
    }
    return n;
}

static enum sim_mode mode_named(const char *name)
{
    for (int i = 0; i < SIM_MODE_COUNT; i++) {
        if (strcmp(sim_mode_names[i], name) == 0) {
            return (enum sim_mode)i;
        }
    }
    fprintf(stderr, "sim: no mode '%s'\n%s", name, USAGE);
    exit(2);
}

static void read_options(int argc, char **argv, struct options *o)
{
    static const struct option LONG[] = {
        {"seeds", required_argument, NULL, 'n'},    {"from", required_argument, NULL, 'f'},
        {"seed", required_argument, NULL, 's'},     {"mode", required_argument, NULL, 'm'},
        {"jobs", required_argument, NULL, 'j'},     {"minutes", required_argument, NULL, 't'},
        {"failures", required_argument, NULL, 'x'}, {"trace", no_argument, NULL, 'T'},
        {"whole", no_argument, NULL, 'w'},          {"update", no_argument, NULL, 'u'},
        {"help", no_argument, NULL, 'h'},           {NULL, 0, NULL, 0}};
    int c;
    while ((c = getopt_long(argc, argv, "", LONG, NULL)) != -1) {
        switch (c) {
        case 'n':
            o->count = number(optarg);
            break;
        case 'f':
            o->from = number(optarg);
            break;
        case 's':
            o->from = number(optarg);
            o->one = true;
            break;
        case 'm':
            o->mode = mode_named(optarg);
            break;
        case 'j':
            o->jobs = (unsigned)number(optarg);
            break;
        case 't':
            o->minutes = (unsigned)number(optarg);
            break;
        case 'x':
            o->failures = (unsigned)number(optarg);
            break;
        case 'T':
            o->trace = true;
            break;
        case 'w':
            o->keep_whole = true;
            break;
        case 'u':
            o->update = true;
            break;
        case 'h':
            printf("%s", USAGE);
            exit(0);
        default:
            fprintf(stderr, "%s", USAGE);
            exit(2);
        }
    }
    if (o->jobs > 64) {
        fprintf(stderr, "%s", USAGE);
        exit(2);
    }
}

int main(int argc, char **argv)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    struct options o = {.from = 1, .count = 1000, .failures = 1};
    read_options(argc, argv, &o);
    if (o.jobs == 0) {
        o.jobs = processors > 0 && processors < 64 ? (unsigned)processors : 1;
    }
    struct world *w = world_new();
    guard(w);
    int rc = 0;
    for (int i = optind; i < argc; i++) {
        int one = scenario_run(w, argv[i], o.update);
        rc = one > rc ? one : rc;
    }
    if (optind == argc) {
        rc = o.one ? run_one(w, &o) : run_many(w, &o);
    }
    world_free(w);
    return rc;
}
