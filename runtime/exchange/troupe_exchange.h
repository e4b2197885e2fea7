/* libtroupe_exchange: collective operations and shared state for training loops outside Troupe. Several processes (ranks 0 to
   size-1 of a session) connect to a running `trouped`. They average gradients, exchange weights by EASGD or ASGD, wait at barriers
   and take locks. Ranks on the daemon's machine may share arrays. C99; docs/own-loop.md shows the use from C++ and Python.

   Calls      block until they are done or `timeout_ms` (> 0) has passed, and not much longer. They never call back into your code,
              change no setting of your process (signals, OpenMP, BLAS) and print nothing. Between open and close the library has
              one thread per session, which answers the daemon's heartbeats while you compute. A second thread runs the calls that
              you start and wait for later (troupe_exchange_start).
   Errors     A call returns 0 or a code below; troupe_exchange_error_text() then has the text. On an error your values are
              unchanged, unless the text says that they may be partly updated: that happens when ranks meet in shared memory and,
              during a round, one of them ends or a deadline passes. If an error limits further use of the session, its code below says so.
   Threads    Several threads may use a session: their calls run one after another, and waiting counts against their timeouts.
   Fork       A session belongs to the process that opened it; in a forked child every call returns TROUPE_EXCHANGE_FORKED.
   Values     of a type below, in the machine's byte order, contiguous. The library keeps no pointer to them after a call.
   Numbers    Reductions use a fixed tree over ranks: every rank gets the same bits, in any order of arrival. bfloat16: every
              combination of two values is computed in float32 and rounded to nearest even. Integers wrap around and have no mean.
              Min and max of values with a NaN are NaN.
   Large      Rounds on 256 KiB and more, between ranks that are all on the daemon's machine and of its user, run in shared memory
   rounds     with the same bits; the daemon is asked when a round begins. Other rounds go through the daemon. */
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
  TROUPE_EXCHANGE_BAD_ARGUMENT = 1, /* an invalid argument: an empty name, another count than registered, timeout 0 */
  TROUPE_EXCHANGE_MISMATCH = 2,     /* ranks disagree: on a length, the size, the averaging method or the next call */
  TROUPE_EXCHANGE_RANK_TAKEN = 3,   /* another live process has this rank */
  TROUPE_EXCHANGE_PEER_LOST = 4,    /* a rank has died or closed: no round until a process opens that rank again */
  TROUPE_EXCHANGE_OUT_OF_STEP = 5,  /* a rank's deadline passed just as its step completed: that rank must close and open again */
  TROUPE_EXCHANGE_TOO_LARGE = 6,    /* a limit of the daemon, or its memory, is exceeded */
  TROUPE_EXCHANGE_NOT_HELD = 7,     /* unlock: this rank does not hold the lock */
  TROUPE_EXCHANGE_TIMEOUT = 8,      /* the deadline has passed; the call was cancelled and may be made again */
  TROUPE_EXCHANGE_UNREACHABLE = 9,  /* open: no daemon at the address, or it rejects this certificate */
  TROUPE_EXCHANGE_DISCONNECTED = 10, /* the connection to the daemon is lost: close and open again */
  TROUPE_EXCHANGE_FORKED = 11,      /* this process is a fork of the one that opened the session */
  TROUPE_EXCHANGE_CLOSED = 12,      /* another thread is closing the session */
  TROUPE_EXCHANGE_INTERNAL = 13,    /* out of memory, or a bug in the library */
  TROUPE_EXCHANGE_NOT_LOCAL = 14,   /* share: the daemon is on another machine, in another container, or another user's */
  TROUPE_EXCHANGE_HOLDER_LOST = 15, /* a process died while it held a shared array's lock: see troupe_exchange_share */
  TROUPE_EXCHANGE_NOT_ALLOWED = 16, /* open: the certificate is valid, but its role may not use the exchange */
  TROUPE_EXCHANGE_NO_CERTIFICATE = 17 /* open: options.tls_dir has no usable certificate and key */
};

enum {
  TROUPE_EXCHANGE_FLOAT32 = 0,
  TROUPE_EXCHANGE_FLOAT64 = 1,
  TROUPE_EXCHANGE_BFLOAT16 = 2, /* this and the following: not for exchange, centre and shared arrays */
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

/* The averaging method: what troupe_exchange_exchange() does with a rank's values w and the centre c. */
enum {
  TROUPE_EXCHANGE_AVERAGE = 0,   /* every rank gets the mean; waits for all ranks */
  TROUPE_EXCHANGE_EASGD = 1,     /* d = alpha (w - c); w -= d; c += d, with the current centre c; waits for no rank */
  TROUPE_EXCHANGE_EASGD_SYNC = 2, /* the same with one c for all ranks, c += the sum of all d; waits for all ranks */
  TROUPE_EXCHANGE_ASGD = 3 /* c += w - (c as this rank last received it); w = c; waits for no rank. A rank's first exchange only
                              receives or creates c. Called every n steps of SGD, this is Downpour SGD (Dean et al. 2012) with
                              n_push = n_fetch = n */
};

enum { TROUPE_EXCHANGE_ANY_RANK = -1 }; /* options.rank: the daemon assigns the lowest free rank */

typedef struct {
  size_t struct_size;  /* sizeof(troupe_exchange_options) */
  const char* address; /* of a trouped: "127.0.0.1:7701" */
  const char* tls_dir; /* folder with ca.pem, client.pem, client.key, as `troupe init-cluster` writes them */
  const char* session; /* a name that the ranks share */
  int32_t rank, size;  /* rank: from 0 to size - 1, or TROUPE_EXCHANGE_ANY_RANK */
  int32_t averaging_method;         /* TROUPE_EXCHANGE_AVERAGE, ... */
  double alpha;        /* EASGD: in [0, 1); else 0 */
  int32_t timeout_ms;
} troupe_exchange_options;

/* Connects and joins the session; does not wait for other ranks (troupe_exchange_barrier does). All ranks must give the same session,
   size, averaging method and alpha. A session exists, centres included, while at least one rank is in it. */
int troupe_exchange_open(const troupe_exchange_options* options, troupe_exchange** session);

/* Registers a buffer of `count` values by name. Every rank that uses it registers it with the same type and count. */
int troupe_exchange_register(troupe_exchange* x, const char* name, int32_t type, uint64_t count, int32_t timeout_ms, int32_t* buffer);

/* Applies the session's averaging method to `values`. EASGD's centre begins as the first exchanged values (sync: rank 0's): broadcast
   first, so that all ranks start from one point. */
int troupe_exchange_exchange(troupe_exchange* x, int32_t buffer, void* values, uint64_t count, int32_t timeout_ms);
/* Reads the centre without changing it. */
int troupe_exchange_centre(troupe_exchange* x, int32_t buffer, void* values, uint64_t count, int32_t timeout_ms);

/* The session's rank; -1 for NULL. */
int32_t troupe_exchange_rank(const troupe_exchange* x);
/* Rank r's part of a buffer of n values among p ranks: [n r / p, n (r + 1) / p). */
int troupe_exchange_part(uint64_t count, int32_t rank, int32_t size, uint64_t* first, uint64_t* part_count);

/* Rounds: all ranks make the same call, which returns when all have made it. `values` holds all values of the buffer on every rank. The
   values that a rank receives overwrite its own; the others are unchanged:

     all_reduce       every rank receives all values, reduced
     reduce_scatter   every rank receives its part of the reduced values
     all_gather       every rank receives the parts of all ranks
     gather           the root receives the parts of all ranks
     scatter          every rank receives its part of the root's values
     broadcast        every rank receives the root's values */
int troupe_exchange_all_reduce(troupe_exchange* x, int32_t buffer, void* values, uint64_t count, int32_t reduction, int32_t timeout_ms);
int troupe_exchange_broadcast(troupe_exchange* x, int32_t buffer, void* values, uint64_t count, int32_t root, int32_t timeout_ms);
int troupe_exchange_reduce_scatter(troupe_exchange* x, int32_t buffer, void* values, uint64_t count, int32_t reduction,
                                   int32_t timeout_ms);
int troupe_exchange_all_gather(troupe_exchange* x, int32_t buffer, void* values, uint64_t count, int32_t timeout_ms);
int troupe_exchange_gather(troupe_exchange* x, int32_t buffer, void* values, uint64_t count, int32_t root, int32_t timeout_ms);
int troupe_exchange_scatter(troupe_exchange* x, int32_t buffer, void* values, uint64_t count, int32_t root, int32_t timeout_ms);
int troupe_exchange_barrier(troupe_exchange* x, int32_t timeout_ms);

/* The same calls without waiting: start returns at once, and the library runs the started calls one after the other, in order.
   `argument` is the reduction or the root, else 0. Do not touch the values until wait has returned the result of the request.

   timeout_ms  of start: from now until the call is done, including the time of earlier requests. If wait returns
               TROUPE_EXCHANGE_TIMEOUT, the request may be still in progress and can be waited for again.
   wait        returns the result of the call, once; afterwards the request does not exist.
   order       A blocking call on the session may run before, between or after the started ones. */
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
int troupe_exchange_test(troupe_exchange* x, int64_t request, int32_t* done); /* sets *done to 1 if wait would return at once */

/* A lock of the session, held by one rank at a time and granted in the order of requests. A rank that leaves or is lost releases its
   locks. */
int troupe_exchange_lock(troupe_exchange* x, const char* name, int32_t timeout_ms);
int troupe_exchange_unlock(troupe_exchange* x, const char* name, int32_t timeout_ms);

/* Arrays in memory that ranks on the daemon's machine share (Hogwild). Calls on them send no message and cost as much as the memory
   access.

   share      Every rank that uses an array calls share with the same name, type and count. The array begins with the first rank's
              `initial`; that of the others is not used. No rank gets the array before it is filled. It exists while any rank is in the
              session, and its bytes count against the daemon's limit. close unmaps it.
   access     Processes that see the daemon in /proc and have its user. The memory is the daemon's and is opened as /proc/PID/fd/N, so
              the kernel checks permissions, without a second socket. All others get TROUPE_EXCHANGE_NOT_LOCAL.
   values     read copies all of them out, write sets them, add does array += scale * values. Every element is accessed on its own: none
              is torn, but other calls may run between two elements, and an addition is lost if another one comes between its load and
              its store. Hogwild tolerates that.
   lock       1: the call excludes other calls with lock 1, of this and other processes, so no addition among them is lost; it waits at
              most `timeout_ms` (TROUPE_EXCHANGE_TIMEOUT). 0: it never waits, but still needs a timeout_ms above 0. If a process dies
              with the lock, the next call that takes it returns TROUPE_EXCHANGE_HOLDER_LOST and does nothing else: the array may have
              a part of the dead process's call. The lock is then free: call again, or write.
   threads    Calls on shared arrays do not wait for the session's other calls, nor for each other.
   To make several calls under one lock, use troupe_exchange_lock. */
int troupe_exchange_share(troupe_exchange* x, const char* name, int32_t type, uint64_t count, const void* initial, int32_t timeout_ms,
                          int32_t* array);
int troupe_exchange_shared_read(troupe_exchange* x, int32_t array, void* values, uint64_t count, int32_t lock, int32_t timeout_ms);
int troupe_exchange_shared_write(troupe_exchange* x, int32_t array, const void* values, uint64_t count, int32_t lock,
                                 int32_t timeout_ms);
int troupe_exchange_shared_add(troupe_exchange* x, int32_t array, const void* values, uint64_t count, double scale, int32_t lock,
                               int32_t timeout_ms);

/* Leaves the session, joins its thread and frees it; calls of other threads return TROUPE_EXCHANGE_CLOSED first. NULL is allowed. The
   handle is invalid afterwards, except after TROUPE_EXCHANGE_FORKED. */
int troupe_exchange_close(troupe_exchange* x);

const char* troupe_exchange_error_name(int code); /* "peer_lost"; never NULL */
const char* troupe_exchange_error_text(void);     /* of this thread's last failed call; valid until its next one */

#ifdef __cplusplus
}
#endif
#endif
