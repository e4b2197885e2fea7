// A wrong clock for a process that is started with this library in LD_PRELOAD: the time of day is
// off by TROUPE_TEST_CLOCK seconds. Monotonic clocks are not changed, as on a machine whose time of
// day is wrong.
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>

#include <cstdlib>

namespace {

time_t shift() {
  static const time_t seconds = [] {
    const char* set = std::getenv("TROUPE_TEST_CLOCK");
    return set ? static_cast<time_t>(std::strtol(set, nullptr, 10)) : 0;
  }();
  return seconds;
}

template <class F>
F* next(const char* name) {
  return reinterpret_cast<F*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t which, timespec* to) noexcept {
  static auto* const real = next<int(clockid_t, timespec*)>("clock_gettime");
  const int rc = real(which, to);
  if (rc == 0 && (which == CLOCK_REALTIME || which == CLOCK_REALTIME_COARSE)) to->tv_sec += shift();
  return rc;
}

int gettimeofday(timeval* to, void*) noexcept {
  timespec now{};
  const int rc = clock_gettime(CLOCK_REALTIME, &now);
  to->tv_sec = now.tv_sec;
  to->tv_usec = now.tv_nsec / 1000;
  return rc;
}

time_t time(time_t* to) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  if (to) *to = now.tv_sec;
  return now.tv_sec;
}
}
