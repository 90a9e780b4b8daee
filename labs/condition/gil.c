/* A GIL in three designs, which C threads fight for.
 *
 * OLD       Python 2: a thread that computes frees it every 100 ticks and
 *           tries to have it again, even if others wait.
 * TODAY     since Python 3.2: a thread that wants it waits for 5 ms, then
 *           asks; the thread that is asked gives it away, and waits until
 *           another thread has had it.
 * PRIORITY  PythonPlus, as its page describes it: every 100 ticks it goes
 *           to a thread that comes back from waiting, if there is one.
 *           Else the thread keeps it, 99 times of 100. It is given to a
 *           thread, never just freed, if any thread wants it.
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

struct gil {
    enum design design;
    sem_t old;                          /* OLD */
    pthread_mutex_t mutex;              /* for all below */
    int held;
    pthread_cond_t freed, changed;      /* TODAY */
    atomic_int asked;
    unsigned long changes;
    pthread_t last;
    sem_t turn[2];                      /* PRIORITY, a place for each from */
    atomic_int queue[2];
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
    int queued = 0;

    if (g->design == OLD) {
        while (sem_wait(&g->old))
            ;
        return;
    }
    pthread_mutex_lock(&g->mutex);
    if (g->design == TODAY)
        take_today(g);
    else if (g->held)
        queued = ++g->queue[from];
    else
        g->held = 1;
    pthread_mutex_unlock(&g->mutex);
    while (queued && sem_wait(&g->turn[from]))
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
    } else if (g->queue[WAITING] || g->queue[COMPUTING]) {
        enum from next = g->queue[WAITING] ? WAITING : COMPUTING;

        g->queue[next]--;
        sem_post(&g->turn[next]);
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
    if (g->design == PRIORITY && !g->queue[WAITING]) {
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
static void *hand_over(struct thread *t, sem_t *mine, sem_t *other)
{
    struct work *w = t->work;

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

static void *produce(void *thread)
{
    struct work *w = ((struct thread *)thread)->work;
    return hand_over(thread, &w->empty, &w->full);
}

static void *consume(void *thread)
{
    struct work *w = ((struct thread *)thread)->work;
    return hand_over(thread, &w->full, &w->empty);
}

/* A pair (or not) and so many hogs (2 at most) need the GIL for a while.
 * done: hand-overs, what the hogs did, what was counted wrong. */
void gil_measure(enum design design, int pair, int hogs, double seconds,
                 long done[3])
{
    static void *(*const roles[])(void *) = {
        produce, consume, compute, compute
    };
    struct work w = {.gil = {.design = design}};
    struct thread threads[4] = {{.done = 0}};

    pthread_mutex_init(&w.gil.mutex, NULL);
    pthread_cond_init(&w.gil.freed, NULL);
    pthread_cond_init(&w.gil.changed, NULL);
    sem_init(&w.gil.old, 0, 1);
    sem_init(&w.gil.turn[WAITING], 0, 0);
    sem_init(&w.gil.turn[COMPUTING], 0, 0);
    sem_init(&w.full, 0, 0);
    sem_init(&w.empty, 0, 1);
    for (int n = pair ? 0 : 2; n < 2 + hogs; n++) {
        threads[n].work = &w;
        if (pthread_create(&threads[n].id, NULL, roles[n], &threads[n]))
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
