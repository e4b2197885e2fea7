/* libtroupe_exchange: what Troupe's processes do for each other, for a training loop that is not Troupe's. Several processes (ranks
   0 to size-1 of a session) meet at a running `trouped` and average gradients, pull each other by EASGD, wait for each other and
   lock; those on the daemon's machine may share arrays. C99; docs/own-loop.md shows it from C++ and from Python.

   Calls      block until they are done or `timeout_ms` (> 0) has passed, and never much longer. They call nothing of yours back,
              change no setting of your process (signals, OpenMP, BLAS) and print nothing. The library keeps one thread of its own
              per session, between open and close; it answers the daemon's heartbeats while you compute. A second one makes the
              calls that you start and wait for later (troupe_exchange_start).
   Errors     a call returns 0 or a code below; troupe_exchange_error_text() then has a sentence. On an error your values are
              unchanged, unless the sentence says that they may be done in part: where ranks meet in shared memory, and one of
              them ended, or a deadline passed, in the middle of a round. There is no error that leaves a session half usable without saying so: see each code.
   Threads    a session may be used by several threads: calls run one after another, waiting within their own timeouts.
   Fork       a session belongs to the process that opened it; in a forked child every call returns TROUPE_EXCHANGE_FORKED.
   Values     of a type below, in this machine's order, contiguous. The library holds no pointer to them after a call.
   Numbers    reductions are taken in a fixed tree over ranks: every rank gets the same bits, whoever was first. bfloat16: every joint of two
              is taken in float32 and rounded to nearest even. Whole numbers wrap around, and have no mean. Where one value is
              not a number, neither is the least nor the largest.
   Large ones Rounds on 256 KiB and more between ranks that are all on the daemon's machine, and its user's, are made in shared memory
              by the ranks themselves, with the same bits; the daemon is asked when a round begins. Others go through the daemon. */
#ifndef TROUPE_EXCHANGE_H
#define TROUPE_EXCHANGE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct troupe_exchange troupe_exchange; /* a session */

enum {
  TROUPE_EXCHANGE_OK = 0,
  TROUPE_EXCHANGE_BAD_ARGUMENT = 1, /* a call that cannot be meant: an empty name, a count that was not registered, timeout 0 */
  TROUPE_EXCHANGE_MISMATCH = 2,     /* ranks disagree: on a length, the size, the law, or on which call comes next */
  TROUPE_EXCHANGE_RANK_TAKEN = 3,   /* another live process has this rank */
  TROUPE_EXCHANGE_PEER_LOST = 4,    /* a rank has died, or closed: no round until somebody opens that rank again */
  TROUPE_EXCHANGE_OUT_OF_STEP = 5,  /* a rank's deadline passed just as its step was done: that rank must close and open anew */
  TROUPE_EXCHANGE_TOO_LARGE = 6,    /* more than the daemon gives */
  TROUPE_EXCHANGE_NOT_HELD = 7,     /* unlock of what this rank does not hold */
  TROUPE_EXCHANGE_TIMEOUT = 8,      /* the deadline has passed; the call was taken back, and may be made again */
  TROUPE_EXCHANGE_UNREACHABLE = 9,  /* open: no daemon there, or it refuses this certificate as such */
  TROUPE_EXCHANGE_DISCONNECTED = 10, /* the daemon is lost; close, and open anew */
  TROUPE_EXCHANGE_FORKED = 11,      /* this process is a fork of the one that opened the session */
  TROUPE_EXCHANGE_CLOSED = 12,      /* another thread closes the session */
  TROUPE_EXCHANGE_INTERNAL = 13,    /* out of memory, or a mistake of ours */
  TROUPE_EXCHANGE_NOT_LOCAL = 14,   /* share: the daemon is on another machine, in another container, or another user's */
  TROUPE_EXCHANGE_HOLDER_LOST = 15, /* a process died while it held a shared array's lock: see troupe_exchange_share */
  TROUPE_EXCHANGE_NOT_ALLOWED = 16, /* open: the certificate is sound, and its role may not use the exchange */
  TROUPE_EXCHANGE_NO_CERTIFICATE = 17 /* open: options.tls_dir has no certificate and key that can be used */
};

enum {
  TROUPE_EXCHANGE_FLOAT32 = 0,
  TROUPE_EXCHANGE_FLOAT64 = 1,
  TROUPE_EXCHANGE_BFLOAT16 = 2, /* this and the following: not for laws and shared arrays */
  TROUPE_EXCHANGE_INT32 = 3,
  TROUPE_EXCHANGE_INT64 = 4
};
enum {
  TROUPE_EXCHANGE_SUM = 0,
  TROUPE_EXCHANGE_MEAN = 1,
  TROUPE_EXCHANGE_MIN = 2,
  TROUPE_EXCHANGE_MAX = 3,
  TROUPE_EXCHANGE_PRODUCT = 4
};

/* What troupe_exchange_exchange() does. */
enum {
  TROUPE_EXCHANGE_AVERAGE = 0,   /* every rank gets the mean; waits for all ranks */
  TROUPE_EXCHANGE_EASGD = 1,     /* d = alpha (w - c); w -= d; c += d, with the centre c as it is now; waits for nobody */
  TROUPE_EXCHANGE_EASGD_SYNC = 2, /* the same with one c for all, c += the sum of all d; waits for all ranks */
  TROUPE_EXCHANGE_ASGD = 3 /* c += w - what this rank last had of c; w = c; waits for nobody. A rank's first one only takes c, or makes
                              it. Every n steps of plain SGD that is Downpour SGD (Dean et al. 2012) with n_push = n_fetch = n */
};

enum { TROUPE_EXCHANGE_ANY_RANK = -1 }; /* of options.rank: the daemon gives the lowest that is free */

typedef struct {
  size_t struct_size;  /* sizeof(troupe_exchange_options) */
  const char* address; /* a trouped's: "127.0.0.1:7701" */
  const char* tls_dir; /* ca.pem, client.pem, client.key, as `troupe init-cluster` makes them */
  const char* session; /* a name that the ranks share */
  int32_t rank, size;  /* rank: from 0 to size - 1, or TROUPE_EXCHANGE_ANY_RANK */
  int32_t averaging_method;         /* of TROUPE_EXCHANGE_AVERAGE, ... */
  double alpha;        /* EASGD: in [0, 1); else 0 */
  int32_t timeout_ms;
} troupe_exchange_options;

/* Dials and enters the session; does not wait for other ranks (troupe_exchange_barrier does). All ranks say the same session, size,
   law and alpha. A session lives, centres included, while a rank is in it. */
int troupe_exchange_open(const troupe_exchange_options* options, troupe_exchange** session);

/* Names a buffer of `count` values. Every rank that uses it registers it with the same type and count. */
int troupe_exchange_register(troupe_exchange* x, const char* name, int32_t type, uint64_t count, int32_t timeout_ms, int32_t* buffer);

/* The session's law on `values`. EASGD's centre begins as the first exchanged values (sync: rank 0's): broadcast first, so that all
   start from one point. */
int troupe_exchange_exchange(troupe_exchange* x, int32_t buffer, void* values, uint64_t count, int32_t timeout_ms);
/* Reads the centre without changing it. */
int troupe_exchange_centre(troupe_exchange* x, int32_t buffer, void* values, uint64_t count, int32_t timeout_ms);

/* Which rank this is; -1 for NULL. */
int32_t troupe_exchange_rank(const troupe_exchange* x);
/* Rank r's part of a buffer of n values among p ranks: [n r / p, n (r + 1) / p). */
int troupe_exchange_part(uint64_t count, int32_t rank, int32_t size, uint64_t* first, uint64_t* part_count);

/* Rounds: all ranks make the same call; it returns when all have. `values` are all values of the buffer on every rank, and what a rank
   gets takes the place of them; the rest of them stays:

     all_reduce       all of them, reduced, to all
     reduce_scatter   all of them, reduced, to each its part
     all_gather       each one's part to all
     gather           each one's part to the root
     scatter          the root's values to each its part
     broadcast        the root's values to all */
int troupe_exchange_all_reduce(troupe_exchange* x, int32_t buffer, void* values, uint64_t count, int32_t reduction, int32_t timeout_ms);
int troupe_exchange_broadcast(troupe_exchange* x, int32_t buffer, void* values, uint64_t count, int32_t root, int32_t timeout_ms);
int troupe_exchange_reduce_scatter(troupe_exchange* x, int32_t buffer, void* values, uint64_t count, int32_t reduction,
                                   int32_t timeout_ms);
int troupe_exchange_all_gather(troupe_exchange* x, int32_t buffer, void* values, uint64_t count, int32_t timeout_ms);
int troupe_exchange_gather(troupe_exchange* x, int32_t buffer, void* values, uint64_t count, int32_t root, int32_t timeout_ms);
int troupe_exchange_scatter(troupe_exchange* x, int32_t buffer, void* values, uint64_t count, int32_t root, int32_t timeout_ms);
int troupe_exchange_barrier(troupe_exchange* x, int32_t timeout_ms);

/* The same without waiting: start returns at once, and the library makes the calls that have been started one after the other, in their
   order. `argument` is the reduction or the root, else 0. The values are the library's until the request has been waited for.

   timeout_ms  of start: from now until the call is done, those before it included; of wait: TROUPE_EXCHANGE_TIMEOUT means that it is
               still under way, and can be waited for again.
   wait        returns what the call would have returned, once; then the request is gone.
   order       A call on the session that is not started but made may come before, between or after those that are under way. */
enum {
  TROUPE_EXCHANGE_CALL_EXCHANGE = 0,
  TROUPE_EXCHANGE_CALL_ALL_REDUCE = 1,
  TROUPE_EXCHANGE_CALL_BROADCAST = 2,
  TROUPE_EXCHANGE_CALL_CENTRE = 3,
  TROUPE_EXCHANGE_CALL_REDUCE_SCATTER = 5,
  TROUPE_EXCHANGE_CALL_ALL_GATHER = 6,
  TROUPE_EXCHANGE_CALL_GATHER = 7,
  TROUPE_EXCHANGE_CALL_SCATTER = 8
};
int troupe_exchange_start(troupe_exchange* x, int32_t call, int32_t buffer, void* values, uint64_t count, int32_t argument,
                          int32_t timeout_ms, int64_t* request);
int troupe_exchange_wait(troupe_exchange* x, int64_t request, int32_t timeout_ms);
int troupe_exchange_test(troupe_exchange* x, int64_t request, int32_t* done); /* 1: wait returns at once */

/* A lock of the session, held by one rank at a time, given in the order of asking. A rank that goes gives its locks back. */
int troupe_exchange_lock(troupe_exchange* x, const char* name, int32_t timeout_ms);
int troupe_exchange_unlock(troupe_exchange* x, const char* name, int32_t timeout_ms);

/* Arrays in memory that ranks on the daemon's machine share (Hogwild): calls on them ask nobody and cost what touching memory costs.

   share      Every rank that uses an array shares it by the same name, type and count. The first one's `initial` is what it begins
              with, the others' is not used; nobody gets it before it is full. It lasts as long as somebody is in the session, and
              its bytes count against what the daemon gives. close unmaps it.
   who        processes that see the daemon in /proc and are the same user: the memory is the daemon's, opened as /proc/PID/fd/N, so
              that the kernel decides who may, and no second socket has to. All others: TROUPE_EXCHANGE_NOT_LOCAL.
   values     read copies all of them out, write sets them, add does array += scale * values. Every element is touched by itself:
              none is ever torn, but others may come between two of them, and an addition that comes between another one's load and
              store is lost. Hogwild lives with that.
   lock       1: the call excludes others that lock, of this process and of others, so that nothing is lost among them; it waits
              within `timeout_ms` (TROUPE_EXCHANGE_TIMEOUT). 0: it never waits, and needs a timeout_ms above 0 all the same.
              When a process dies that holds the lock, the next call to take it returns TROUPE_EXCHANGE_HOLDER_LOST and has done
              nothing else: the array may have a part of the dead one's call. The lock is free then; call again, or write.
   threads    calls on shared arrays do not wait for the session's other calls, nor for each other.
   For more than one call under one lock there is troupe_exchange_lock. */
int troupe_exchange_share(troupe_exchange* x, const char* name, int32_t type, uint64_t count, const void* initial, int32_t timeout_ms,
                          int32_t* array);
int troupe_exchange_shared_read(troupe_exchange* x, int32_t array, void* values, uint64_t count, int32_t lock, int32_t timeout_ms);
int troupe_exchange_shared_write(troupe_exchange* x, int32_t array, const void* values, uint64_t count, int32_t lock,
                                 int32_t timeout_ms);
int troupe_exchange_shared_add(troupe_exchange* x, int32_t array, const void* values, uint64_t count, double scale, int32_t lock,
                               int32_t timeout_ms);

/* Leaves the session, joins its thread and frees it; calls of other threads return TROUPE_EXCHANGE_CLOSED first. NULL is fine. The
   handle is gone afterwards, except after TROUPE_EXCHANGE_FORKED. */
int troupe_exchange_close(troupe_exchange* x);

const char* troupe_exchange_error_name(int code); /* "peer_lost"; never NULL */
const char* troupe_exchange_error_text(void);     /* of this thread's last failed call; until its next one */

#ifdef __cplusplus
}
#endif
#endif
