/* A condition in three designs; lab.py calls it from Python.
 *
 * The lock is the same in all. They differ in how a thread sleeps until
 * it is notified:
 *
 * PTHREAD    a number that notify increments, and a pthread_cond_t
 * SEMAPHORE  a list of the threads that wait, each with a semaphore;
 *            notify takes the first one off the list and posts its
 *            semaphore. With one semaphore for all, a thread that notifies
 *            and then waits could take its own wake-up back.
 * FUTEX      a number that notify increments; the kernel lets a thread
 *            sleep only if the number is still the one that it has read
 *
 * To wait has two parts. condition_enlist gives the lock away while the
 * thread still has the GIL; then condition_sleep needs neither. If the GIL
 * went first, the next thread would find the lock taken, and sleep again.
 * For the same reason the thread takes the lock again when it is back in
 * Python. As with threading.Condition, a thread that waits or notifies
 * holds the lock, and one that wakes up looks whether it has a reason to.
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
    struct condition *c;
    unsigned seen;                      /* PTHREAD, FUTEX */
    sem_t woken;                        /* SEMAPHORE */
    struct waiter *next;
};

struct condition {
    enum design design;
    pthread_mutex_t lock;
    atomic_uint notified;               /* PTHREAD, FUTEX */
    pthread_mutex_t inner;              /* PTHREAD */
    pthread_cond_t cond;
    struct waiter *first, **end;        /* SEMAPHORE */
};

struct condition *condition_new(enum design design)
{
    struct condition *c = calloc(1, sizeof *c);

    if (c == NULL)
        abort();
    c->design = design;
    pthread_mutex_init(&c->lock, NULL);
    pthread_mutex_init(&c->inner, NULL);
    pthread_cond_init(&c->cond, NULL);
    c->end = &c->first;
    return c;
}

void condition_free(struct condition *c)
{
    pthread_cond_destroy(&c->cond);
    pthread_mutex_destroy(&c->inner);
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

struct waiter *condition_enlist(struct condition *c)
{
    struct waiter *w = calloc(1, sizeof *w);

    if (w == NULL)
        abort();
    w->c = c;
    w->seen = c->notified;
    if (c->design == SEMAPHORE) {
        sem_init(&w->woken, 0, 0);
        *c->end = w;
        c->end = &w->next;
    }
    pthread_mutex_unlock(&c->lock);
    return w;
}

/* The next three sleep. 1: notified; 0: the time was over first.
 * until: NULL for ever. */

static int sleep_pthread(struct waiter *w, const struct timespec *until)
{
    struct condition *c = w->c;
    int failed = 0;

    pthread_mutex_lock(&c->inner);
    while (c->notified == w->seen && !failed)
        failed = until ? pthread_cond_timedwait(&c->cond, &c->inner, until)
                       : pthread_cond_wait(&c->cond, &c->inner);
    pthread_mutex_unlock(&c->inner);
    return c->notified != w->seen;
}

static int sleep_semaphore(struct waiter *w, const struct timespec *until)
{
    struct condition *c = w->c;
    struct waiter **place = &c->first;
    int failed;

    do
        failed = until ? sem_timedwait(&w->woken, until)
                       : sem_wait(&w->woken);
    while (failed && errno == EINTR);
    if (failed) {   /* still on the list: really not notified */
        pthread_mutex_lock(&c->lock);
        while (*place && *place != w)
            place = &(*place)->next;
        if ((failed = *place != NULL)) {
            *place = w->next;
            if (c->end == &w->next)
                c->end = place;
        }
        pthread_mutex_unlock(&c->lock);
    }
    sem_destroy(&w->woken);
    return !failed;
}

static int sleep_futex(struct waiter *w, const struct timespec *until)
{
    while (syscall(SYS_futex, &w->c->notified, FUTEX_WAIT_BITSET_PRIVATE |
                   FUTEX_CLOCK_REALTIME, w->seen, until, NULL,
                   FUTEX_BITSET_MATCH_ANY) && errno == EINTR)
        ;
    return w->c->notified != w->seen;
}

/* seconds: how long at most, less than 0 for ever. */
int condition_sleep(struct waiter *w, double seconds)
{
    static int (*const sleep_in[])(struct waiter *, const struct timespec *) =
        {sleep_pthread, sleep_semaphore, sleep_futex};
    struct timespec end, *until = NULL;
    int notified;

    if (seconds >= 0) {
        until = &end;
        clock_gettime(CLOCK_REALTIME, until);
        seconds += end.tv_nsec / 1e9;
        end.tv_sec += (time_t)seconds;
        end.tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9);
    }
    notified = sleep_in[w->c->design](w, until);
    free(w);
    return notified;
}

void condition_notify(struct condition *c, int all)
{
    struct waiter *w;

    switch (c->design) {
    case PTHREAD:
        pthread_mutex_lock(&c->inner);
        c->notified++;
        pthread_mutex_unlock(&c->inner);
        /* Not before, or the thread would wake up to wait for inner. */
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
    int players, turn, stop;
    atomic_long handed;
};

static void *play(void *pair)
{
    struct pair *p = pair;
    int me;

    condition_acquire(p->c);
    me = p->players++;
    while (!p->stop)
        if (p->turn == me) {
            p->turn = !me;
            p->handed += me;
            condition_notify(p->c, 0);
        } else {
            condition_sleep(condition_enlist(p->c), -1);
            condition_acquire(p->c);
        }
    condition_release(p->c);
    return NULL;
}

/* Hand-overs, there and back, in so many seconds; -1: a wake-up was lost,
 * both sleep. */
long condition_pair(enum design design, double seconds)
{
    struct pair p = {.c = condition_new(design)};
    pthread_t threads[2];
    long handed;

    if (pthread_create(&threads[0], NULL, play, &p) ||
        pthread_create(&threads[1], NULL, play, &p))
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
