/* SPDX-License-Identifier: Apache-2.0 */
/* sim-mutants: switches on one deliberate bug after the other, and says how long each lives. */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sim/guard.h"
#include "sim/mutants.h"
#include "sim/sim.h"

#define HANG_S 120 /* a core that does not return from a step for so long */

struct verdict {
    uint64_t seeds; /* until it was found; 0: it was not */
    uint64_t seed;
    enum sim_mode mode;
    enum sim_invariant broken;
    char why[200];
};

struct options {
    uint64_t seeds, from;
    unsigned jobs;
    const char *only;
    bool trace;
};

static const char USAGE[] = "usage: sim-mutants [--seeds N] [--from S] [--only NAME] [--jobs J] "
                            "[--trace]\n";

/* In the mode in which it should show, then in all of them. */
static void hunt(enum mutant which, const struct options *o, struct verdict *v)
{
    struct world *w = world_new();
    const enum sim_mode modes[] = {(enum sim_mode)mutant_infos[which].mode, SIM_ANY};
    uint64_t tried = 0;
    guard(w);
    mutant_active = which;
    for (size_t k = 0; k < 2; k++) {
        uint64_t n = k == 0 && modes[0] != SIM_ANY ? o->seeds / 2 : o->seeds - tried;
        for (uint64_t i = 0; i < n; i++) {
            struct sim_schedule s;
            schedule_make(o->from + i, modes[k], &s);
            tried++;
            alarm(HANG_S);
            if (!world_run(w, &s, o->trace)) {
                *v = (struct verdict){tried, o->from + i, modes[k], w->broken, ""};
                snprintf(v->why, sizeof v->why, "%.190s", w->why);
                return;
            }
        }
    }
}

static pid_t start(enum mutant which, const struct options *o, int *in)
{
    int ends[2];
    if (pipe(ends) != 0) {
        perror("sim-mutants: pipe");
        exit(2);
    }
    pid_t pid = fork();
    if (pid == 0) {
        struct verdict v = {0};
        hunt(which, o, &v);
        _exit(write(ends[1], &v, sizeof v) == (ssize_t)sizeof v ? 0 : 1);
    }
    close(ends[1]);
    *in = ends[0];
    return pid;
}

/* True: it was found. */
static bool finish(enum mutant which, pid_t pid, int in)
{
    struct verdict v;
    int status;
    bool told = read(in, &v, sizeof v) == (ssize_t)sizeof v;
    close(in);
    waitpid(pid, &status, 0);
    const struct mutant_info *info = &mutant_infos[which];
    if (!told) { /* it took the process with it: that does not go unnoticed either */
        printf("%-30s found, by the end of the process   %s\n", info->name, info->text);
    } else if (v.seeds == 0) {
        printf("%-30s SURVIVES                           %s\n", info->name, info->text);
    } else {
        printf("%-30s %5" PRIu64 " seeds, %-8s (%s %" PRIu64 ")  %s\n", info->name, v.seeds,
               sim_invariant_names[v.broken], sim_mode_names[v.mode], v.seed, info->text);
    }
    fflush(stdout);
    return !told || v.seeds != 0;
}

static int run(const struct options *o)
{
    pid_t pids[MUTANT_COUNT];
    int ins[MUTANT_COUNT];
    unsigned next = 1, done = 1, survivors = 0, looked_at = 0;
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (; done < MUTANT_COUNT; done++) {
        for (; next < MUTANT_COUNT && next < done + o->jobs; next++) {
            bool wanted = o->only == NULL || strcmp(o->only, mutant_infos[next].name) == 0;
            pids[next] = wanted ? start((enum mutant)next, o, &ins[next]) : 0;
        }
        if (pids[done] > 0) {
            looked_at++;
            survivors += finish((enum mutant)done, pids[done], ins[done]) ? 0 : 1;
        }
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    printf("%u mutants, %u survive; %.1f s\n", looked_at, survivors,
           (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) * 1e-9);
    return looked_at == 0 || survivors > 0 ? 1 : 0;
}

int main(int argc, char **argv)
{
    static const struct option LONG[] = {
        {"seeds", required_argument, NULL, 'n'}, {"from", required_argument, NULL, 'f'},
        {"only", required_argument, NULL, 'o'},  {"jobs", required_argument, NULL, 'j'},
        {"trace", no_argument, NULL, 't'},       {NULL, 0, NULL, 0}};
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    struct options o = {
        .seeds = 60000, .from = 1, .jobs = processors > 0 ? (unsigned)processors : 1};
    int c;
    while ((c = getopt_long(argc, argv, "", LONG, NULL)) != -1) {
        if (c == 'n') {
            o.seeds = strtoull(optarg, NULL, 10);
        } else if (c == 'f') {
            o.from = strtoull(optarg, NULL, 10);
        } else if (c == 't') {
            o.trace = true;
        } else if (c == 'o') {
            o.only = optarg;
        } else if (c == 'j') {
            o.jobs = (unsigned)strtoul(optarg, NULL, 10);
        } else {
            fputs(USAGE, stderr);
            return 2;
        }
    }
    if (optind < argc || o.jobs == 0 || o.seeds == 0) {
        fputs(USAGE, stderr);
        return 2;
    }
    return run(&o);
}
