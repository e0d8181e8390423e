/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the update share; not for other rooms.
 *
 * update.c       what lies where
 * update_slots.c slots, as the caller sees them
 * update_step.c  the order of things
 * update_apply.c the passes over memory
 * update_sums.c  sums: reduce, settle, norms
 * update_blob.h  the packed messages */
#ifndef GRADUS_RULE_UPDATE_UPDATE_IMPL_H
#define GRADUS_RULE_UPDATE_UPDATE_IMPL_H

#include "rule/update/update.h"

/* Fits the first-level cache with its neighbours, so that what was read once is still there. */
#define UPDATE_BLOCK_FLOATS 2048

/* Settings that variables of the same pattern share. */
struct update_group {
    bool frozen;
    double lr_multiplier;
    void *params;  /* with the pattern's values */
    void *present; /* as of this version */
    void *past;    /* as of an earlier update: update_past() */
    const struct update_spec *spec;
    double l1, l2, weight_decay;
    double ridge; /* by train record */
    /* scalars of the update that was begun */
    struct rule_scalars scalars;
    float decay; /* learning rate · weight_decay */
};

struct update_variable_state {
    struct update_variable spec;
    uint64_t number; /* rng_key(0, name) */
    size_t group;
    size_t local; /* SIZE_MAX: has no part here */
};

/* A variable with a part here. */
struct update_local {
    uint32_t variable;
    size_t part; /* the first here */
    uint64_t elements_here;
    struct rule_totals totals; /* owns its columns */
};

struct update_part_state {
    struct update_part part;
    size_t local, group;
    uint64_t rows_before; /* rows of the parts before it in the shard */
};

/* The hyperparameters of what is called by one name, in the updates of one era. */
struct update_past {
    const struct update_group *group;
    uint64_t first;                   /* update that they are of, and later ones */
    const struct update_past *before; /* NULL: they are of all */
    struct update_past *next;         /* of those that the same update owns */
};

/* A range of the shard that one thread changes: parts of one group that lie one behind the other,
 * or a range of one part where the rule needs to know where it is. */
struct update_piece {
    size_t part; /* part of the first element */
    uint64_t at, n;
};

enum update_kind {
    UPDATE_DUE,        /* the rule runs */
    UPDATE_COLLECTING, /* accumulated for a later version */
    UPDATE_NOTHING,    /* no records */
    UPDATE_LEFT_OUT,   /* not finite */
};

struct update {
    const struct update_spec *spec;
    struct update_variable_state *variables;
    size_t variable_count;
    size_t counted; /* variables that are not apart: update_is_apart() */
    struct update_part_state *parts;
    size_t part_count;
    struct update_local *locals;
    size_t local_count;
    struct update_group *groups; /* [pattern_count + 1], the last for what no pattern takes */
    size_t group_count;
    const struct update *before; /* of the versions before `since`; NULL: none was */
    uint64_t since;
    struct update_past *pasts; /* made by update_past() */
    struct update_piece *pieces;
    size_t piece_count;
    uint64_t elements;

    struct update_slot slots[UPDATE_SLOTS_MAX];
    size_t slot_count;
    uint64_t slot_floats[UPDATE_SLOTS_MAX];
    uint64_t *column_offsets;        /* [local_count] of slots per column */
    size_t accumulated, examples_in; /* slots; SIZE_MAX: none */
    size_t average;

    bool by_rows;            /* spans of the rule are whole rows */
    bool takes_norms;        /* round 0 */
    bool is_complete;        /* all variables lie here, whole */
    bool is_whole;           /* the variables that lie here lie here whole */
    struct buf mine, totals; /* of update_run() */
    unsigned rounds;         /* with it */
    struct update_team team; /* or nobody: a loop */
    struct rule_sums *sums;  /* [slices] scratch, of one part: side by side */
    unsigned slices;
    struct update_result *results;  /* [piece_count] of the pieces */
    float *pending[RULE_SLOTS_MAX]; /* slots per column and variable until finish */
    double *norms;                  /* [variable_count + table_count] scratch */
    size_t table_count;             /* tables that take part in clips */
    double *table_factors;          /* [table_count] of the update that was begun */

    /* ---- the update that was begun ---- */
    struct update_step step;
    enum update_kind kind;
    bool poisoned;   /* the accumulated gradient is not finite */
    unsigned round;  /* the next to settle */
    float scale;     /* factor of the gradient that is stored */
    float weight;    /* weight of the gradient in an accumulation */
    float examples;  /* examples of the accumulation, with this gradient */
    bool gathered;   /* `more`, compensation and accumulation are in the gradient */
    bool shaped;     /* mean, clips and penalties are in the gradient; scale is 1 */
    double *factors; /* [variable_count] of clips by norm; 1 without */
    float *rule_slots[RULE_SLOTS_MAX]; /* where the rule finds its slots */
    float *out;
    uint32_t bad_variable; /* the first that is not finite; UINT32_MAX: none, or not known */
    uint64_t bad_element;  /* UINT64_MAX: not known */
    bool failed;           /* found here, before the rounds */
    bool alone;            /* the totals to settle are of variables that lie here, no others */
};

/* True for a frozen variable and for a statistic: neither the rule nor norms are about it. */
static inline bool update_is_apart(const struct update *u, uint32_t variable)
{
    const struct update_variable_state *v = &u->variables[variable];
    return u->groups[v->group].frozen || v->spec.statistic > 0;
}

/* ---- update_apply.c ---- */

/* Everything that comes before the finite check, into the gradient, over the whole shard. */
void update_gather(struct update *u);
/* Mean, clips and penalties into the gradient, over the whole shard. */
void update_shape(struct update *u);
/* The first element of @variable, as far as it lies here, that is not finite; UINT64_MAX: none. */
uint64_t update_find_bad(const struct update *u, uint32_t variable);
/* @n elements of @part from the shard's element @at on, as the rule wants them. */
struct rule_span update_span(const struct update *u, size_t part, uint64_t at, uint64_t n,
                             float **slots);

/* Before rounds: whether all of the gradient is finite, and if not, where first. */
void update_check(struct update *u);
/* A piece of update_finish(). */
void update_finish_piece(const struct update *u, size_t piece, struct update_result *result);
void update_result_join(struct update_result *all, const struct update_result *piece);

/* ---- update_sums.c ---- */

/* Memory for as many slices of a part. */
int update_sums_init(struct update *u, unsigned slices, struct err *err);
void update_sums_release(struct update *u);
/* The totals of a round are in: on to the next. */
void update_round_done(struct update *u);
/* Factors of clips from the sums of squares of all variables, and whether all are finite. */
void update_take_norms(struct update *u, const double *norms);

#endif
