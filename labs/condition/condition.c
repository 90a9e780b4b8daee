/* A condition in three designs; lab.py calls it from Python.
 *
 * The lock is the same in all. They differ in how a thread sleeps until
 * it is notified:
 *
 * PTHREAD    pthread_cond_t, as the C library has it
 * SEMAPHORE  a list of those who wait, each with a semaphore of its own;
 *            notify takes the first one off the list and posts its
 *            semaphore. With one semaphore for all, a thread that notifies
 *            and then waits could take its own wake-up back.
 * FUTEX      a number that notify increments; the kernel lets a thread
 *            sleep only if the number is still the one that it has read
 *
 * As with threading.Condition, whoever waits or notifies holds the lock.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum design { PTHREAD, SEMAPHORE, FUTEX };

struct waiter {
    sem_t woken;
    struct waiter *next;
};

struct condition {
    enum design design;
    pthread_mutex_t lock;
    pthread_cond_t cond;                /* PTHREAD */
    struct waiter *first, **end;        /* SEMAPHORE */
    atomic_uint notified;               /* FUTEX */
};

struct condition *condition_new(enum design design)
{
    struct condition *c = calloc(1, sizeof *c);

    if (c == NULL)
        abort();
    c->design = design;
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->cond, NULL);
    c->end = &c->first;
    return c;
}

void condition_free(struct condition *c)
{
    pthread_cond_destroy(&c->cond);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

int condition_try_acquire(struct condition *c)
{
    return pthread_mutex_trylock(&c->lock) == 0;
}

void condition_acquire(struct condition *c)
{
    pthread_mutex_lock(&c->lock);
}

void condition_release(struct condition *c)
{
    pthread_mutex_unlock(&c->lock);
}

/* Each of the next three gives the lock away, sleeps, has the lock again.
 * 1: notified; 0: the time was over first. until: NULL for ever. */

static int sleep_pthread(struct condition *c, const struct timespec *until)
{
    if (until == NULL)
        return pthread_cond_wait(&c->cond, &c->lock) == 0;
    return pthread_cond_timedwait(&c->cond, &c->lock, until) == 0;
}

static int sleep_semaphore(struct condition *c, const struct timespec *until)
{
    struct waiter own = {.next = NULL};
    int failed;

    sem_init(&own.woken, 0, 0);
    *c->end = &own;
    c->end = &own.next;
    pthread_mutex_unlock(&c->lock);
    do
        failed = until ? sem_timedwait(&own.woken, until)
                       : sem_wait(&own.woken);
    while (failed && errno == EINTR);
    pthread_mutex_lock(&c->lock);
    /* Still on the list: really not notified, so leave it. */
    for (struct waiter **w = &c->first; failed && *w; w = &(*w)->next)
        if (*w == &own) {
            *w = own.next;
            if (c->end == &own.next)
                c->end = w;
            sem_destroy(&own.woken);
            return 0;
        }
    sem_destroy(&own.woken);
    return 1;
}

static int sleep_futex(struct condition *c, const struct timespec *until)
{
    unsigned seen = c->notified;

    pthread_mutex_unlock(&c->lock);
    while (syscall(SYS_futex, &c->notified, FUTEX_WAIT_BITSET_PRIVATE |
                   FUTEX_CLOCK_REALTIME, seen, until, NULL,
                   FUTEX_BITSET_MATCH_ANY) && errno == EINTR)
        ;
    pthread_mutex_lock(&c->lock);
    return c->notified != seen;
}

/* seconds: how long at most, less than 0 for ever. It may return 1 without
 * a notify, so the caller looks again, as Python's programs do. */
int condition_wait(struct condition *c, double seconds)
{
    struct timespec end, *until = NULL;

    if (seconds >= 0) {
        until = &end;
        clock_gettime(CLOCK_REALTIME, until);
        seconds += end.tv_nsec / 1e9;
        end.tv_sec += (time_t)seconds;
        end.tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9);
    }
    switch (c->design) {
    case PTHREAD: return sleep_pthread(c, until);
    case SEMAPHORE: return sleep_semaphore(c, until);
    default: return sleep_futex(c, until);
    }
}

void condition_notify(struct condition *c, int all)
{
    struct waiter *w;

    switch (c->design) {
    case PTHREAD:
        (all ? pthread_cond_broadcast : pthread_cond_signal)(&c->cond);
        break;
    case SEMAPHORE:
        while ((w = c->first) != NULL) {
            c->first = w->next;
            if (c->first == NULL)
                c->end = &c->first;
            sem_post(&w->woken);
            if (!all)
                break;
        }
        break;
    case FUTEX:
        c->notified++;
        syscall(SYS_futex, &c->notified, FUTEX_WAKE_PRIVATE,
                all ? INT_MAX : 1);
    }
}

/* Two C threads that take turns, without any Python. */

struct pair {
    struct condition *c;
    int turn, stop;
    atomic_long handed;
};

static void *play(struct pair *p, int me)
{
    condition_acquire(p->c);
    while (!p->stop)
        if (p->turn == me) {
            p->turn = !me;
            p->handed += me;
            condition_notify(p->c, 0);
        } else {
            condition_wait(p->c, -1);
        }
    condition_release(p->c);
    return NULL;
}

static void *produce(void *pair) { return play(pair, 0); }
static void *consume(void *pair) { return play(pair, 1); }

/* Hand-overs, there and back, in so many seconds; -1: a wake-up was lost,
 * both sleep. */
long condition_pair(enum design design, double seconds)
{
    struct pair p = {.c = condition_new(design)};
    pthread_t threads[2];
    long handed;

    if (pthread_create(&threads[0], NULL, produce, &p) ||
        pthread_create(&threads[1], NULL, consume, &p))
        abort();
    usleep((useconds_t)(seconds * 1e6));
    handed = p.handed;
    for (int tries = 0; p.handed == handed && tries < 10000; tries++)
        usleep(1000);
    if (p.handed == handed)
        handed = -1;
    condition_acquire(p.c);
    p.stop = 1;
    condition_notify(p.c, 1);
    condition_release(p.c);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    condition_free(p.c);
    return handed;
}
