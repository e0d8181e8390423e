/* SPDX-License-Identifier: Apache-2.0 */
/* What must hold, whatever goes wrong, one line each. Only sim.h includes this. */
#ifndef GRADUS_SIM_INVARIANTS_H
#define GRADUS_SIM_INVARIANTS_H

#define SIM_INVARIANTS(X)                                                                          \
    X(ASSERT, "no assertion of a core fails")                                                      \
    X(CRASH, "no core crashes")                                                                    \
    X(ONCE, "a batch is applied at most once on a shard")                                          \
    X(ALL, "every batch is applied exactly once on every shard in the end")                        \
    X(ERA, "each version is made with the update section of the job's row, as clients know")       \
    X(SAME, "all shards apply the same batches in a step")                                         \
    X(EXAMPLES, "the examples of an update are those of its batches")                              \
    X(VERSION, "a shard's version rises by one")                                                   \
    X(READ, "a reader sees one version")                                                           \
    X(PINS, "a shard keeps one version for a sync point, and gives it back before the next")       \
    X(GIVEN, "what workers bring is there before anybody reads it, and is not taken twice")        \
    X(FENCE, "a request of an old generation, or of a stranger, changes nothing")                  \
    X(STANDBY, "what a shard has shown its backup has, and a generation has one primary of it")    \
    X(READY, "a server is told to stay while a shard or backup on it is not covered")              \
    X(SKEW, "shards of a sync job are one step apart at most")                                     \
    X(BITS, "sync training gives the bits of the reference")                                       \
    X(ROWS, "tables have the rows of their batches, of one version, on any number of servers")     \
    X(LEDGER, "a shard's ledger says what it applied")                                             \
    X(MANIFEST, "a manifest names complete files of one cut")                                      \
    X(ANEW, "a job that has a checkpoint never begins anew")                                       \
    X(STORED, "no generation is used, and no end is told, before it is stored")                    \
    X(STATE, "states of a job follow the table")                                                   \
    X(FAILED, "no fault makes a job fail")                                                         \
    X(LEASE, "a split is leased as fresh once")                                                    \
    X(ANSWER, "every request is answered or its caller is gone")                                   \
    X(LIVE, "a job ends soon after faults have stopped")                                           \
    X(BEATS, "no node is given up that beats")                                                     \
    X(STEADY, "no step is lost as long as servers live, and speak before they are given up")       \
    X(PAUSED, "a paused job holds nothing, has its checkpoint, and waits to be resumed")           \
    X(DRAIN, "who drains gets nothing, keeps nothing that can go, and who needs him keeps him")    \
    X(DEPART,                                                                                      \
      "a server that is to end is emptied, gets nothing, and ends when nothing is lost by it")     \
    X(SERVERS, "a job moves to the servers that it wants when they are there, with its workers")   \
    X(QUEUE, "higher priorities go first, quotas hold, nobody waits for what is free")             \
    X(CLEAN, "nothing is left when a job is over")                                                 \
    X(MEMORY, "memory for gradients has its limit, and nobody waits for what he may have")         \
    X(BOUND, "nobody is further ahead than the staleness bound")                                   \
    X(STOP, "a job ends where evaluations say, and its best version is there")                     \
    X(RESUMED,                                                                                     \
      "what has ended goes on when a client was told so, from its checkpoint, and only then")      \
    X(TRACE, "a trace ends, with an answer of each node, and nobody records for it then")          \
    X(RECORDED, "what a server does for a recorded step is recorded")                              \
    X(ORDER, "actions come in an order that can be carried out")

enum sim_invariant {
    INVARIANT_NONE,
#define X(NAME, text) INVARIANT_##NAME,
    SIM_INVARIANTS(X)
#undef X
        INVARIANT_COUNT
};
extern const char *const sim_invariant_names[INVARIANT_COUNT];
extern const char *const sim_invariant_texts[INVARIANT_COUNT];

#endif
