/* The echo of lab.py beside it in C, to compare with.
 *
 * frames recv     recv a whole frame into a buffer that is kept, send it
 * frames through  recv at most 1 MiB, send it on at once
 * frames splice   from socket to pipe to socket, never in our memory
 *
 * Prints its port, echoes the frames of one connection, then prints what
 * that cost as JSON: without the first frame, which is the warm-up.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define CHUNK ((size_t)1 << 20)    /* bytes that a pipe or "through" hold */
#define MOST ((uint64_t)1 << 36)   /* bytes of a frame */

static void fail(const char *what)
{
    printf("{\"error\": \"%s failed in C\"}\n", what);
    exit(0);
}

/* Fills the buffer; 0: the other side has closed. */
static int receive(int sock, char *buffer, size_t size)
{
    while (size > 0) {
        ssize_t count = recv(sock, buffer, size, 0);
        if (count < 0)
            fail("recv");
        if (count == 0)
            return 0;
        buffer += count;
        size -= (size_t)count;
    }
    return 1;
}

static void send_all(int sock, const char *buffer, size_t size)
{
    while (size > 0) {
        ssize_t count = send(sock, buffer, size, MSG_NOSIGNAL);
        if (count < 0)
            fail("send");
        buffer += count;
        size -= (size_t)count;
    }
}

static int echo_whole(int sock, size_t size)
{
    static char *buffer;
    static size_t have;

    if (have < size) {
        free(buffer);
        buffer = malloc(size);
        if (buffer == NULL)
            fail("malloc");
        have = size;
    }
    if (!receive(sock, buffer, size))
        return 0;
    send_all(sock, (const char *)&size, sizeof size);
    send_all(sock, buffer, size);
    return 1;
}

static int echo_through(int sock, size_t size)
{
    static char buffer[CHUNK];

    send_all(sock, (const char *)&size, sizeof size);
    while (size > 0) {
        ssize_t count = recv(sock, buffer, size < CHUNK ? size : CHUNK, 0);
        if (count < 0)
            fail("recv");
        if (count == 0)
            return 0;
        send_all(sock, buffer, (size_t)count);
        size -= (size_t)count;
    }
    return 1;
}

static int echo_splice(int sock, size_t size)
{
    static int ends[2];

    if (ends[1] == 0) {
        if (pipe(ends) != 0)
            fail("pipe");
        (void)fcntl(ends[1], F_SETPIPE_SZ, (int)CHUNK);
    }
    send_all(sock, (const char *)&size, sizeof size);
    while (size > 0) {
        ssize_t held = splice(sock, NULL, ends[1], NULL, size, 0);
        if (held < 0)
            fail("splice");
        if (held == 0)
            return 0;
        size -= (size_t)held;
        while (held > 0) {
            ssize_t count =
                splice(ends[0], NULL, sock, NULL, (size_t)held, 0);
            if (count < 0)
                fail("splice");
            held -= count;
        }
    }
    return 1;
}

static double seconds(struct timeval time)
{
    return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

int main(int argc, char **argv)
{
    int (*echo)(int, size_t) = echo_whole;
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    socklen_t length = sizeof address;
    struct rusage begun = {0}, ended;
    uint64_t size;
    int one = 1, number = 0;

    if (argc == 2 && strcmp(argv[1], "through") == 0) {
        echo = echo_through;
    } else if (argc == 2 && strcmp(argv[1], "splice") == 0) {
        echo = echo_splice;
    } else if (argc != 2 || strcmp(argv[1], "recv") != 0) {
        fprintf(stderr, "frames: say recv, through or splice\n");
        return 2;
    }
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (listener < 0 ||
        bind(listener, (struct sockaddr *)&address, length) != 0 ||
        listen(listener, 1) != 0 ||
        getsockname(listener, (struct sockaddr *)&address, &length) != 0)
        fail("listen");
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    int sock = accept(listener, NULL, NULL);
    if (sock < 0)
        fail("accept");
    (void)setsockopt(sock, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    while (receive(sock, (char *)&size, sizeof size)) {
        if (size > MOST)
            fail("a frame that is too long");
        if (!echo(sock, (size_t)size))
            break;
        if (++number == 1)
            getrusage(RUSAGE_SELF, &begun);
    }
    getrusage(RUSAGE_SELF, &ended);
    printf("{\"user\": %.6f, \"system\": %.6f, \"faults\": %ld}\n",
           seconds(ended.ru_utime) - seconds(begun.ru_utime),
           seconds(ended.ru_stime) - seconds(begun.ru_stime),
           ended.ru_minflt - begun.ru_minflt);
    return 0;
}
