/* The wall clock of one process and its children, as many seconds off as the file EOS_CLOCK says. Preloaded.
 *
 * Not libfaketime: with the monotonic clock left alone, as a jump leaves it, it breaks Python's sleep and the waits of
 * librdkafka, which are until a moment of the wall clock. The kernel, whose clock does not jump, is told such a moment
 * without the offset.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

static const volatile long *offset_s;

__attribute__((constructor)) static void find_offset(void) {
  const char *name = getenv("EOS_CLOCK");
  int file = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0) return;
  void *at = mmap(NULL, sizeof(long), PROT_READ, MAP_SHARED, file, 0);
  close(file);
  if (at != MAP_FAILED) offset_s = at;
}

int clock_gettime(clockid_t clock, struct timespec *at) {
  long failed = syscall(SYS_clock_gettime, clock, at);
  if (!failed && offset_s && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) at->tv_sec += *offset_s;
  return (int)failed;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
  struct timespec now;
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &now);
  at->tv_sec = now.tv_sec;
  at->tv_usec = now.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *at) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (at) *at = now.tv_sec;
  return now.tv_sec;
}

/* Moments of the monotonic clock are small, since it began with the machine: they stay. */
static struct timespec kernels(const struct timespec *until) {
  struct timespec at = *until;
  if (offset_s && at.tv_sec > 1000000000) at.tv_sec -= *offset_s;
  return at;
}

int pthread_cond_timedwait(pthread_cond_t *restrict some, pthread_mutex_t *restrict held,
                           const struct timespec *restrict until) {
  int (*next)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *) =
      dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
  if (!next) next = dlsym(RTLD_NEXT, "pthread_cond_timedwait");
  struct timespec at = kernels(until);
  return next(some, held, &at);
}

int cnd_timedwait(cnd_t *restrict some, mtx_t *restrict held, const struct timespec *restrict until) {
  int (*next)(cnd_t *, mtx_t *, const struct timespec *) = dlsym(RTLD_NEXT, "cnd_timedwait");
  struct timespec at = kernels(until);
  return next(some, held, &at);
}
