/* SPDX-License-Identifier: Apache-2.0 */
/* The update of a shard: everything between a summed gradient and the next version.
 *
 * In order, as far as the job asks for it:
 *
 *     the sum of gradients → delay compensation → accumulation over several versions → mean
 *     → are all values finite? → each value into ±clip_value → each variable to a norm ≤ clip_norm
 *     → all variables together to a norm ≤ clip_global_norm
 *     → + (l2 + ridge / records) · w + l1 · sign(w)
 *     → decoupled decay: w · (1 − learning rate · weight_decay) → the rule → the moving average
 *
 * Some of that needs sums over whole variables, or over all of them, which may lie on several
 * shards. They are taken in rounds: each shard reduces its part to a packed message, anybody joins
 * the messages of all shards into totals, each shard settles the totals. However variables are cut
 * into parts and parts are spread over shards, the bits are the same as in one piece.
 *
 *     update_begin(u, &step)
 *     for each round < update_rounds(u):
 *         update_reduce(u, round, &mine);  exchange, update_join(all);  update_settle(u, round, …)
 *     update_finish(u, out, &result)
 *
 * or update_run(), which does all of it by itself: one shard, or async. Until update_finish()
 * nothing changes but the gradient: what was begun may be forgotten and begun again.
 *
 * Owner: one thread at a time; a thread team may help it. A struct update has scratch memory but no
 * values, gradients or slots: those belong to the caller. No time, files, threads or log. After
 * update_new() only update_reduce() and update_join() allocate, in the buffer they are given.
 *
 * A statistic, such as the running mean of batch_norm, is a variable whose gradient is the
 * statistic of a batch times its records (decision 54). The sums and the division of gradients make
 * of it the mean over all records of a step; the update moves the variable a fixed share of the way
 * there, past the rule, the clips and the norms. So versions, checkpoints, pins and evaluations
 * hold for statistics, and of the protocol only the plan knows of them. */
#ifndef GRADUS_RULE_UPDATE_UPDATE_H
#define GRADUS_RULE_UPDATE_UPDATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "rule/rules/exact_sum.h"
#include "rule/update/update_spec.h"

/* Slots of a shard: those of the rule, then "accumulated" and "accumulated_examples" (accumulate >
 * 1), then "average" (average > 0). */
#define UPDATE_SLOTS_MAX (RULE_SLOTS_MAX + 3)

struct update; /* opaque */

struct update_variable {
    const char *name; /* borrowed for the life of the update */
    uint64_t elements;
    size_t width; /* elements of a row: plan_row_elements() */
    /* 0: a variable that gradients train. Else a statistic, whose gradient is the sum over examples
     * of its value for them: w += statistic · (mean − w), whatever the rule. Of all the above only
     * accumulation, the mean, the check for finite values and the moving average hold for a
     * statistic. A gradient that is not finite leaves it as it is. */
    float statistic;
};

/* A piece of a variable in a shard: whole rows. Parts come in the order of their offsets, which run
 * on without a gap. */
struct update_part {
    uint32_t variable;
    uint64_t first, count; /* elements of the variable */
    uint64_t offset;       /* place of its first element in the shard's arrays */
};

/* ---- slots, from the job alone ---- */

struct update_slot {
    const char *name; /* as in checkpoints */
    enum rule_slot_kind kind;
    float initial;
    bool of_values; /* begins as a copy of the parameters instead (average) */
};
/* Fills @slots; returns how many there are. */
size_t update_spec_slots(const struct update_spec *spec,
                         struct update_slot slots[UPDATE_SLOTS_MAX]);
/* The index of "average", or -1. What evaluate_average evaluates and `export --average` exports. */
int update_spec_average(const struct update_spec *spec);

/* Checks what a job's update needs of all variables of its plan, whoever holds them: each pattern
 * of `update.variables` must match one of them at least, or a table. For programs that accept a
 * job. Errors: ERR_INVALID, names the pattern. */
int update_spec_check(const struct update_spec *spec, const struct update_variable *variables,
                      size_t count, struct err *err);

/* ---- a shard ---- */

/* @variables are all of the plan, @parts those of this shard (for a worker or a single process: of
 * everything; none of a shard that has tables alone). @spec is borrowed for the life of the update.
 * Errors: ERR_INVALID (parts that are no such thing, a pattern without a variable), ERR_EXHAUSTED.
 */
int update_new(const struct update_spec *spec, const struct update_variable *variables,
               size_t variable_count, const struct update_part *parts, size_t part_count,
               struct update **out, struct err *err);
void update_free(struct update *u); /* NULL is fine */

/* Slots in this shard: floats altogether, and where those of a part begin. Slots per parameter are
 * laid out as the values are; slots per row, part after part; of slots per column and per variable
 * there is one copy for each variable that has a part here, shared by its parts. */
size_t update_slot_count(const struct update *u);
const struct update_slot *update_slot(const struct update *u, size_t slot);
uint64_t update_slot_floats(const struct update *u, size_t slot);
uint64_t update_slot_offset(const struct update *u, size_t slot, size_t part);
uint64_t update_slot_part_floats(const struct update *u, size_t slot, size_t part);
/* What all slots are before the first update, @values being the parameters. */
void update_slots_fill(const struct update *u, const float *values, float *const *slots);

/* Rounds in which sums are exchanged when the job is cut over several shards, in sync mode. 0 for
 * most jobs: then update_begin() and update_finish() are one pass over memory. */
unsigned update_rounds(const struct update *u);
/* Whether update_run() wants the norms of a push: the job takes norms (update_spec_takes_norms())
 * and some variables lie elsewhere. Async with several shards. */
bool update_needs_norms(const struct update *u);
/* True when begin needs a gradient (zeros, then) even of a step without a single record. */
bool update_needs_gradient(const struct update *u);
/* True when a rule with rounds finds each of its variables whole in this shard, as it must when no
 * sums are exchanged (async, several shards). */
bool update_is_whole(const struct update *u);

/* Says that there are @count tables beside the variables, whose rows take part in clips by norms:
 * each table as a variable of its own for clip_norm, and in the global norm behind the variables.
 * @whole: all of their rows lie here. Once, before the first update. */
void update_add_tables(struct update *u, size_t count, bool whole);
/* True if update_step.tables is needed. */
bool update_needs_tables(const struct update *u);

/* True if the values may be changed in place: not with a decoupled decay, which needs those of
 * before. */
bool update_is_in_place(const struct update *u);

/* Threads that help, from the caller's side (execution/thread_team.h has one): call @one(@ctx, i)
 * for each i < @count, at the same time or not, and @done(@ctx, n), unless NULL, on the caller's
 * thread with growing n up to @count when all before n are over; return after the last. */
struct update_team {
    void (*run)(void *team, size_t count, void (*one)(void *ctx, size_t i),
                void (*done)(void *ctx, size_t n), void *ctx);
    void *team;
    unsigned threads; /* threads for one call; at least 1 */
};
/* From now on what takes long is done by @team, with the same bits. Errors: ERR_EXHAUSTED.
 */
int update_share(struct update *u, const struct update_team *team, struct err *err);

/* ---- one update ---- */

struct update_step {
    /* Of @in; the result is version + 1. Rules and schedules count updates: version / accumulate.
     */
    uint64_t version;
    double lr_scale; /* 1 without staleness */
    const float *in;
    /* The sum over @examples, changed in place. NULL with 0 examples: the values stay. */
    float *gradient;
    const float *more; /* added to the gradient first, in the same pass; NULL: nothing */
    uint64_t examples;
    const float *base; /* what rule->base asks for, as the worker read it; NULL: no delay */
    /* Delay compensation: the values that the worker read; NULL: none. */
    const float *then;
    float lambda;
    float *const *slots; /* [update_slot_count] */
    /* [tables] with update_needs_tables(): of the mean of the gradient, the sums of squares of the
     * rows that are here, after clips of single rows. NULL where norms are given. */
    const struct exact_sum *tables;
    /* Of the push, one for each variable of the plan, and behind them one for each table with
     * update_needs_tables(); NULL: taken here. Only update_run(). */
    const double *norms;
    size_t norm_count;
    /* NULL, or called by update_finish() and update_run() again and again, on their thread: the
     * elements before @end are in @out, and stay as they are unless the update fails. @end grows,
     * up to the last. */
    void (*progress)(void *ctx, uint64_t end);
    void *progress_ctx;
};

enum update_outcome {
    UPDATE_APPLIED,
    UPDATE_KEPT,    /* the values stay: no records, or accumulated for a later version */
    UPDATE_SKIPPED, /* the values stay: not finite, and the job says skip */
    UPDATE_FAILED,  /* as UPDATE_SKIPPED, and the job says fail; the slots are of no use */
};

struct update_result {
    enum update_outcome outcome;
    /* Of SKIPPED and FAILED: the first value that is not finite. */
    uint32_t variable; /* a variable of the plan, or a table behind them; 0 when not known */
    uint64_t element;  /* of the variable; UINT64_MAX: not known, it lies in another shard */
};

/* Borrows all of @step until update_finish(). One that was begun before is forgotten. */
void update_begin(struct update *u, const struct update_step *step);
/* Append the partial sums of this shard to @out, which is emptied first. After update_begin() and
 * the totals of all rounds before. */
void update_reduce(struct update *u, unsigned round, struct buf *out);
/* Takes the totals of a round. They may come from any process: everything about them is checked.
 * Errors: ERR_INVALID, says what is wrong; nothing has changed then. */
int update_settle(struct update *u, unsigned round, const void *totals, size_t bytes,
                  struct err *err);
/* The next version into @out (which may be @in when update_is_in_place()), the slots as of then. */
void update_finish(struct update *u, float *out, struct update_result *result);

/* begin, all rounds by itself, finish. For one shard, for async, for a single process.
 * Errors: ERR_INVALID norms missing or too few; ERR_STATE a rule with rounds, and not
 * update_is_whole(); ERR_EXHAUSTED. Nothing has changed then but the gradient. */
int update_run(struct update *u, const struct update_step *step, float *out,
               struct update_result *result, struct err *err);

/* After update_run() or update_finish() of a step with records: the scalars of that update for the
 * table @name, whose values lie elsewhere, with the patterns of the job. */
void update_scalars(const struct update *u, const char *name, struct rule_scalars *out);

/* Likewise what the gradient of table @table is multiplied with, by clips by norms; 1: nothing. */
double update_table_factor(const struct update *u, size_t table);

/* As update_scalars(): the penalties of table @name, by elements; 0: none of that kind. */
struct update_penalties {
    float l1, l2;
    float ridge; /* of a step: that of the job / train records */
    float decay; /* learning rate · weight_decay */
};
void update_penalties(const struct update *u, const char *name, struct update_penalties *out);

/* What was updated before version @version was so by @before, of the same rule, patterns of other
 * values and the same tables; borrowed for the life of @u. Once, for update_past(). */
void update_follows(struct update *u, const struct update *before, uint64_t version);
/* Hyperparameters of all updates until now, of what is called @name, for catch-up. @out points into
 * @u; not while an update is under way. */
void update_past(struct update *u, const char *name, struct rule_past *out);

/* ---- anywhere ---- */

/* Joins the partial sums of one round of all shards, in any order of shards, into the totals that
 * update_settle() takes. The messages may come from any process: everything about them is checked,
 * and no more memory is taken than their size. Errors: ERR_INVALID, says which message and what is
 * wrong; ERR_EXHAUSTED. */
int update_join(const void *const *parts, const size_t *bytes, size_t count, struct buf *totals,
                struct err *err);

/* For a worker that has the whole gradient (an update over parts of all variables): computes the
 * sums of squares that update_step.norms wants, with the bits that the shards would get. The
 * gradient stays as it is. @norms has room for all variables of the plan; what is behind them is
 * the caller's. Errors: ERR_EXHAUSTED. */
int update_norms(struct update *u, const float *gradient, uint64_t examples, double *norms,
                 struct err *err);

#endif
