/* Preloaded (LD_PRELOAD), sets the wall clock of a program, and of what it starts, by the seconds that stand in the file WALL_CLOCK names;
 * the file may change while the program runs. The other clocks (monotonic, boot) are left alone: that is what setting a clock does. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
#include <fcntl.h>

static long ahead_s(void) {
    const char *path = getenv("WALL_CLOCK");
    char text[32] = "";
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return 0;
    ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    return length > 0 ? strtol(text, NULL, 10) : 0;
}

#define EXPORT __attribute__((visibility("default")))

EXPORT int clock_gettime(clockid_t clock, struct timespec *now) {
    int answer = (int)syscall(SYS_clock_gettime, clock, now);
    if (!answer && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += ahead_s();
    return answer;
}

EXPORT int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    (void)zone;
    struct timespec precise;
    int answer = clock_gettime(CLOCK_REALTIME, &precise);
    if (!answer) *now = (struct timeval){precise.tv_sec, precise.tv_nsec / 1000};
    return answer;
}

EXPORT time_t time(time_t *where) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (where) *where = now.tv_sec;
    return now.tv_sec;
}
