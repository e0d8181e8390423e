/* SPDX-License-Identifier: Apache-2.0 */
/* Messages with descriptors over a local socket, and sealed anonymous memory. */
#include "program/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/chrono.h"

#define CACHE_LINE 64
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

/* ---- memory ---- */

static int map(int fd, size_t size, bool writable, struct program_memory *out, struct err *err)
{
    void *bytes =
        mmap(NULL, size, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd, 0);
    if (bytes == MAP_FAILED) {
        return err_errno(err, errno, "map %zu bytes that a program shares", size);
    }
    *out = (struct program_memory){.bytes = bytes, .size = size, .fd = fd};
    return 0;
}

int program_memory_new(size_t size, struct program_memory *out, struct err *err)
{
    int fd = memfd_create("gradus-program", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) {
        return err_set(err, ERR_EXHAUSTED, "make memory for a program: %s", strerror(errno));
    }
    if (size > INT64_MAX || ftruncate(fd, (off_t)size) != 0 || fcntl(fd, F_ADD_SEALS, SEALS) != 0 ||
        (errno = posix_fallocate(fd, 0, (off_t)size)) != 0) {
        err_set(err, ERR_EXHAUSTED, "make %zu bytes of memory for a program: %s", size,
                strerror(errno));
        (void)close(fd);
        return ERR_EXHAUSTED;
    }
    int rc = map(fd, size, true, out, err);
    if (rc != 0) {
        (void)close(fd);
    }
    return rc;
}

int program_memory_map(int fd, size_t size, bool writable, struct program_memory *out,
                       struct err *err)
{
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS);
    int rc = 0;
    if (size == 0 || seals < 0 || (seals & F_SEAL_SHRINK) == 0 || fstat(fd, &st) != 0 ||
        st.st_size < 0 || (uint64_t)st.st_size < size) {
        rc = err_set(err, ERR_INVALID, "the memory that came is not %zu bytes for good", size);
    } else {
        rc = map(fd, size, writable, out, err);
    }
    (void)close(fd);
    if (rc == 0) {
        out->fd = -1;
    }
    return rc;
}

void program_memory_release(struct program_memory *m)
{
    if (m->bytes != NULL) {
        (void)munmap(m->bytes, m->size);
        if (m->fd >= 0) {
            (void)close(m->fd);
        }
    }
    *m = (struct program_memory){.fd = -1};
}

/* ---- messages ---- */

int program_channel_pair(int ends[2], struct err *err)
{
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
        return err_errno(err, errno, "make a socket for a program");
    }
    return 0;
}

void program_message_init(struct program_message *m, enum program_kind kind, uint64_t number)
{
    memset(m, 0, sizeof *m); /* all bytes of a union travel */
    m->magic = PROGRAM_MAGIC;
    m->version = PROGRAM_VERSION;
    m->kind = (uint16_t)kind;
    m->number = number;
}

union control {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
};

int program_send(int socket, const struct program_message *m, int fd, struct err *err)
{
    struct program_message copy = *m;
    struct iovec part = {&copy, sizeof copy};
    union control control = {.bytes = {0}};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (fd >= 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof control.bytes;
        struct cmsghdr *c = CMSG_FIRSTHDR(&message);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(c), &fd, sizeof fd);
    }
    ssize_t n = sendmsg(socket, &message, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR) {
        n = sendmsg(socket, &message, MSG_NOSIGNAL);
    }
    return n == (ssize_t)sizeof *m ? 0
                                   : err_set(err, ERR_ABORTED, "the other side of the socket: %s",
                                             n < 0 ? strerror(errno) : "took a part of a message");
}

/* Takes the descriptor that came, if one did; when more than one came, all are closed. */
static int take_fd(struct msghdr *message)
{
    int fd = -1;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c != NULL; c = CMSG_NXTHDR(message, c)) {
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
            c->cmsg_len >= CMSG_LEN(sizeof fd)) {
            memcpy(&fd, CMSG_DATA(c), sizeof fd);
        }
    }
    return fd;
}

static bool is_known(const struct program_message *m, ssize_t n)
{
    return n == (ssize_t)sizeof *m && m->magic == PROGRAM_MAGIC && m->version == PROGRAM_VERSION &&
           m->kind >= PROGRAM_HELLO && m->kind <= PROGRAM_KEYS;
}

static void end_texts(struct program_message *m)
{
    if (m->kind == PROGRAM_HELLO) {
        m->hello.name[sizeof m->hello.name - 1] = '\0';
    } else if (m->kind == PROGRAM_JOB) {
        m->job.id[sizeof m->job.id - 1] = '\0';
        m->job.program[sizeof m->job.program - 1] = '\0';
    } else if (m->kind == PROGRAM_FAILED) {
        m->failed.text[sizeof m->failed.text - 1] = '\0';
    }
}

/* Receives without waiting; 1: there is nothing yet. */
static int try_receive(int socket, struct program_message *m, int *fd, struct err *err)
{
    struct iovec part = {m, sizeof *m};
    union control control;
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    ssize_t n = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return 1;
    }
    if (n <= 0) {
        return err_set(err, ERR_ABORTED, "the other side of the socket is gone%s%s",
                       n < 0 ? ": " : "", n < 0 ? strerror(errno) : "");
    }
    *fd = take_fd(&message);
    if (!is_known(m, n)) {
        if (*fd >= 0) {
            (void)close(*fd);
        }
        return err_set(err, ERR_INVALID,
                       "what came over the socket is no message of version %d of this interface",
                       PROGRAM_VERSION);
    }
    end_texts(m);
    return 0;
}

int program_receive(int socket, unsigned spin_us, int timeout_ms, struct program_message *m,
                    int *fd, struct err *err)
{
    *fd = -1;
    const uint64_t begin_ns = chrono_now_ns();
    const uint64_t spin_end_ns = begin_ns + (uint64_t)spin_us * 1000;
    int rc = try_receive(socket, m, fd, err);
    while (rc == 1 && chrono_now_ns() < spin_end_ns) {
        rc = try_receive(socket, m, fd, err);
    }
    while (rc == 1) {
        int left = -1;
        if (timeout_ms >= 0) {
            uint64_t passed_ms = (chrono_now_ns() - begin_ns) / 1000000;
            left = passed_ms >= (uint64_t)timeout_ms ? 0 : timeout_ms - (int)passed_ms;
        }
        struct pollfd p = {.fd = socket, .events = POLLIN};
        if (poll(&p, 1, left) == 0) {
            return err_set(err, ERR_TIMEOUT, "no answer for %d ms", timeout_ms);
        }
        rc = try_receive(socket, m, fd, err);
    }
    return rc;
}

unsigned program_spin_us(struct program_spin *s, unsigned most_us)
{
    if (s->vain < PROGRAM_SPIN_VAIN) {
        return most_us;
    }
    s->passed = (s->passed + 1) % PROGRAM_SPIN_AGAIN;
    return s->passed == 0 ? most_us : 0;
}

void program_spin_end(struct program_spin *s, unsigned most_us, uint64_t waited_ns)
{
    if (waited_ns <= (uint64_t)most_us * 1000) {
        s->vain = 0;
    } else if (s->vain < PROGRAM_SPIN_VAIN) {
        s->vain++;
    }
}

/* ---- layout ---- */

uint64_t program_elements(const struct program_variable *v)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < v->rank; i++) {
        n *= v->dims[i];
    }
    return n;
}

uint64_t program_layout(const struct program_variable *variables, size_t count, uint64_t *offsets)
{
    uint64_t at = 0;
    for (size_t i = 0; i < count; i++) {
        offsets[i] = at;
        at += (program_elements(&variables[i]) + PROGRAM_VARIABLE_ALIGN - 1) /
              PROGRAM_VARIABLE_ALIGN * PROGRAM_VARIABLE_ALIGN;
    }
    return at;
}

uint64_t program_values_at(size_t variable_count, size_t table_count)
{
    uint64_t bytes = (uint64_t)variable_count * sizeof(struct program_variable) +
                     (uint64_t)table_count * sizeof(struct program_table);
    return (bytes + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
}

uint64_t program_key_count(const struct program_keys *keys)
{
    uint64_t n = 0;
    for (uint32_t t = 0; t < keys->table_count && t < PROGRAM_TABLES_MAX; t++) {
        n += keys->counts[t];
    }
    return n;
}
