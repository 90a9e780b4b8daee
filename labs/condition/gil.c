/* A GIL in three designs, which C threads fight for.
 *
 * OLD       Python 2: a thread that computes frees it every 100 ticks and
 *           tries to have it again, even if others wait.
 * TODAY     since Python 3.2: a thread that wants it waits for 5 ms, then
 *           asks; the thread that is asked gives it away, and waits until
 *           another thread has had it.
 * PRIORITY  PythonPlus, as its page describes it: every 100 ticks it goes
 *           to a thread that comes back from waiting, if there is one.
 *           Else the thread keeps it, 99 times of 100. It is given to the
 *           thread that has waited longest, never just freed.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define INTERVAL 5000000    /* nanoseconds until a thread asks, TODAY */
#define KEPT 99             /* times of 100, PRIORITY */
#define STEPS 2000          /* some microseconds, as 100 ticks of Python 2 */

enum design { OLD, TODAY, PRIORITY };
enum from { WAITING, COMPUTING };   /* where a thread comes from */

struct turn {                           /* of a thread that waits for it */
    sem_t given;
    struct turn *next;
};

struct gil {
    enum design design;
    sem_t old;                          /* OLD */
    pthread_mutex_t mutex;              /* for all below */
    int held;
    pthread_cond_t freed, changed;      /* TODAY */
    atomic_int asked;
    unsigned long changes;
    pthread_t last;
    struct turn *first[2], **end[2];    /* PRIORITY: a queue for each from */
    atomic_int queued[2];
    int kept;
};

/* Python/ceval_gil.h, take_gil, without what does not concern us. */
static void take_today(struct gil *g)
{
    while (g->held) {
        struct timespec end;
        unsigned long seen = g->changes;

        clock_gettime(CLOCK_REALTIME, &end);
        end.tv_nsec += INTERVAL;
        end.tv_sec += end.tv_nsec / 1000000000;
        end.tv_nsec %= 1000000000;
        if (pthread_cond_timedwait(&g->freed, &g->mutex, &end) == ETIMEDOUT
            && g->held && g->changes == seen)
            g->asked = 1;
    }
    g->held = 1;
    g->asked = 0;
    if (!pthread_equal(g->last, pthread_self())) {
        g->last = pthread_self();
        g->changes++;
        pthread_cond_broadcast(&g->changed);
    }
}

static void take(struct gil *g, enum from from)
{
    struct turn own = {.next = NULL};
    int queued = 0;

    if (g->design == OLD) {
        while (sem_wait(&g->old))
            ;
        return;
    }
    pthread_mutex_lock(&g->mutex);
    if (g->design == TODAY)
        take_today(g);
    else if (g->held) {
        sem_init(&own.given, 0, 0);
        *g->end[from] = &own;
        g->end[from] = &own.next;
        queued = ++g->queued[from];
    } else
        g->held = 1;
    pthread_mutex_unlock(&g->mutex);
    while (queued && sem_wait(&own.given))
        ;                   /* it stays held: it has been given to us */
}

static void drop(struct gil *g)
{
    if (g->design == OLD) {
        sem_post(&g->old);
        return;
    }
    pthread_mutex_lock(&g->mutex);
    if (g->design == TODAY) {
        unsigned long seen = g->changes;

        g->held = 0;
        pthread_cond_signal(&g->freed);
        while (g->asked && g->changes == seen)
            pthread_cond_wait(&g->changed, &g->mutex);
    } else if (g->queued[WAITING] || g->queued[COMPUTING]) {
        enum from next = g->queued[WAITING] ? WAITING : COMPUTING;
        struct turn *turn = g->first[next];

        g->first[next] = turn->next;
        if (turn->next == NULL)
            g->end[next] = &g->first[next];
        g->queued[next]--;
        sem_post(&turn->given);
    } else {
        g->held = 0;
    }
    pthread_mutex_unlock(&g->mutex);
}

/* What a thread that computes does every 100 ticks. */
static void yield(struct gil *g)
{
    if (g->design == TODAY && !g->asked)
        return;
    if (g->design == PRIORITY && !g->queued[WAITING]) {
        if (g->kept++ < KEPT)
            return;
        g->kept = 0;
    }
    drop(g);
    take(g, COMPUTING);
}

/* Threads that need it. All increment one number, which is right at the
 * end only if no two of them ever had the GIL at the same time. */

struct work {
    struct gil gil;
    atomic_int stop;
    volatile long total;
    sem_t full, empty;
};

struct thread {
    pthread_t id;
    struct work *work;
    int consumer;
    long done;
};

static void *compute(void *thread)
{
    struct thread *t = thread;
    struct work *w = t->work;

    take(&w->gil, COMPUTING);
    for (; !w->stop; t->done++) {
        for (int step = 0; step < STEPS; step++)
            w->total++;
        yield(&w->gil);
    }
    drop(&w->gil);
    return NULL;
}

/* As Python's Lock: the GIL goes away only if there is a need to wait. */
static void *hand_over(void *thread)
{
    struct thread *t = thread;
    struct work *w = t->work;
    sem_t *mine = t->consumer ? &w->full : &w->empty;
    sem_t *other = t->consumer ? &w->empty : &w->full;

    take(&w->gil, COMPUTING);
    for (; !w->stop; t->done++) {
        if (sem_trywait(mine)) {
            drop(&w->gil);
            while (sem_wait(mine))
                ;
            take(&w->gil, WAITING);
        }
        w->total++;
        sem_post(other);
    }
    drop(&w->gil);
    return NULL;
}

/* A pair (or not) and so many hogs (2 at most) need the GIL for a while.
 * done: hand-overs, what the hogs did, what was counted wrong. */
void gil_measure(enum design design, int pair, int hogs, double seconds,
                 long done[3])
{
    struct work w = {.gil = {.design = design}};
    struct thread threads[4] = {[1] = {.consumer = 1}};  /* 2, 3: hogs */

    pthread_mutex_init(&w.gil.mutex, NULL);
    pthread_cond_init(&w.gil.freed, NULL);
    pthread_cond_init(&w.gil.changed, NULL);
    sem_init(&w.gil.old, 0, 1);
    w.gil.end[WAITING] = &w.gil.first[WAITING];
    w.gil.end[COMPUTING] = &w.gil.first[COMPUTING];
    sem_init(&w.full, 0, 0);
    sem_init(&w.empty, 0, 1);
    for (int n = pair ? 0 : 2; n < 2 + hogs; n++) {
        threads[n].work = &w;
        if (pthread_create(&threads[n].id, NULL, n < 2 ? hand_over : compute,
                           &threads[n]))
            abort();
    }
    usleep((useconds_t)(seconds * 1e6));
    w.stop = 1;
    sem_post(&w.full);      /* the pair sees it too */
    sem_post(&w.empty);
    for (int n = pair ? 0 : 2; n < 2 + hogs; n++)
        pthread_join(threads[n].id, NULL);
    done[0] = threads[1].done;
    done[1] = threads[2].done + threads[3].done;
    done[2] = threads[0].done + threads[1].done + STEPS * done[1] - w.total;
}
