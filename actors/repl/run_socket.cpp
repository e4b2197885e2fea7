// The server's side: one thread that polls the listening socket and the clients.
#include "actors/repl/run_socket.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <list>
#include <optional>
#include <thread>
#include <vector>

#include "actors/repl/unix_socket.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;
constexpr auto take_answer_within = 10s;
constexpr auto look_every = 1s;
// Clients ask again every repl_ask_every.
constexpr auto outcomes_within = 5s;

std::string error_text(const std::string& what, const std::filesystem::path& file) {
  return "no REPL socket: cannot " + what + " " + file.string() + ": " + std::strerror(errno);
}

bool may_connect(int fd) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return false;
  return peer.uid == ::geteuid() || peer.uid == 0;
}

}  // namespace

struct run_socket::impl {
  struct client {
    open_fd fd;
    std::string in, out;
    std::chrono::steady_clock::time_point deadline{};  // of `out`
    bool over = false;
    bool follows = false;  // has a command whose outcome is not there yet, and asks again for it
    bool waits() const { return follows || !out.empty(); }
  };

  explicit impl(repl_backend& b) : backend(b) {}

  bool open(const std::filesystem::path& path);
  void serve();
  void accept_clients();
  void receive(client& c);
  void answer(client& c);
  void send(client& c);

  repl_backend& backend;
  std::string error;
  std::string name;
  open_fd folder, listener, wake;
  ino_t inode = 0;
  std::list<client> clients;
  std::thread thread;
};

std::filesystem::path run_socket_file(const std::filesystem::path& folder) { return folder / "repl.sock"; }

// The file gets its mode before listen(): until then, nobody can connect.
bool run_socket::impl::open(const std::filesystem::path& path) {
  name = path.filename().string();
  const auto fail = [&](const char* what) {
    error = error_text(what, path);
    return false;
  };
  folder = open_folder_of(path);
  if (!folder) return fail("open the folder of");
  sockaddr_un at{};
  errno = ENAMETOOLONG;
  if (!unix_address(path, folder.get(), at)) return fail("create");
  if (connect_unix(path)) {
    error = "no REPL socket: another process answers at " + path.string();
    return false;
  }
  struct stat left {};
  if (::fstatat(folder.get(), name.c_str(), &left, AT_SYMLINK_NOFOLLOW) == 0 && S_ISSOCK(left.st_mode))
    ::unlinkat(folder.get(), name.c_str(), 0);
  listener = open_fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  wake = open_fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!listener || !wake) return fail("create");
  if (::bind(listener.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0) return fail("create");
  struct stat made {};
  if (::fchmodat(folder.get(), name.c_str(), 0600, 0) != 0) return fail("protect");
  if (::fstatat(folder.get(), name.c_str(), &made, AT_SYMLINK_NOFOLLOW) != 0) return fail("find");
  inode = made.st_ino;
  return ::listen(listener.get(), static_cast<int>(max_run_clients)) == 0 || fail("listen at");
}

void run_socket::impl::accept_clients() {
  for (;;) {
    open_fd fd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd) return;
    if (clients.size() < max_run_clients && may_connect(fd.get())) clients.push_back({std::move(fd), {}, {}, {}, false});
  }
}

void run_socket::impl::receive(client& c) {
  char buffer[16384];
  const auto got = ::recv(c.fd.get(), buffer, sizeof buffer, 0);
  if (got > 0) {
    c.in.append(buffer, static_cast<std::size_t>(got));
    return answer(c);
  }
  if (got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) c.over = true;
}

// Handles the next request, unless an earlier answer is still being sent.
void run_socket::impl::answer(client& c) {
  while (c.out.empty() && !c.over) {
    const auto end = c.in.find('\n');
    if (end > max_run_request) c.over = c.in.size() > max_run_request;  // npos: the line is not complete
    if (end == std::string::npos || c.over) return;
    const auto asked = read_run_request(std::string_view(c.in).substr(0, end));
    c.in.erase(0, end + 1);
    repl_reply r{repl_reply::kind::failed, "malformed request", {}};
    try {
      if (asked) r = repl_session(backend, asked->json).run(asked->line);
    } catch (const std::exception& e) {
      r = {repl_reply::kind::failed, e.what(), {}};
    }
    c.follows = !r.next.empty();
    c.out = to_line(r);
    c.deadline = std::chrono::steady_clock::now() + take_answer_within;
    send(c);
  }
}

void run_socket::impl::send(client& c) {
  while (!c.out.empty()) {
    const auto sent = ::send(c.fd.get(), c.out.data(), c.out.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) {
      c.over = errno != EAGAIN && errno != EWOULDBLOCK;
      return;
    }
    c.out.erase(0, static_cast<std::size_t>(sent));
  }
}

// After `wake`, only until the clients that follow a command have its outcome: `stop` is one.
void run_socket::impl::serve() {
  std::optional<std::chrono::steady_clock::time_point> end;
  for (;;) {
    const auto waits = [](const client& c) { return c.waits(); };
    if (end && (std::chrono::steady_clock::now() > *end || std::none_of(clients.begin(), clients.end(), waits))) return;
    std::vector<pollfd> fds{{wake.get(), POLLIN, 0}, {listener.get(), POLLIN, 0}};
    for (const auto& c : clients) fds.push_back({c.fd.get(), static_cast<short>(c.out.empty() ? POLLIN : POLLOUT), 0});
    ::poll(fds.data(), fds.size(), static_cast<int>(std::chrono::milliseconds(look_every).count()));
    const auto now = std::chrono::steady_clock::now();
    if (std::uint64_t count = 0; fds[0].revents != 0 && ::read(wake.get(), &count, sizeof count) > 0) end = now + outcomes_within;
    std::size_t i = 2;
    for (auto& c : clients) {
      const auto events = fds[i++].revents;
      if (!c.out.empty()) {
        if ((events & POLLOUT) != 0) send(c);
        if ((events & (POLLERR | POLLHUP)) != 0 || now > c.deadline) c.over = true;
        if (c.out.empty()) answer(c);
      } else if (events != 0) {
        receive(c);
      }
    }
    clients.remove_if([](const client& c) { return c.over; });
    if (fds[1].revents != 0) accept_clients();
  }
}

run_socket::run_socket(const std::filesystem::path& file, repl_backend& backend) : impl_(std::make_unique<impl>(backend)) {
  if (impl_->open(file)) impl_->thread = std::thread([here = impl_.get()] { here->serve(); });
}

run_socket::~run_socket() {
  auto& me = *impl_;
  if (me.thread.joinable()) {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(me.wake.get(), &one, sizeof one);
    me.thread.join();
  }
  struct stat here {};
  if (me.inode != 0 && ::fstatat(me.folder.get(), me.name.c_str(), &here, AT_SYMLINK_NOFOLLOW) == 0 && here.st_ino == me.inode)
    ::unlinkat(me.folder.get(), me.name.c_str(), 0);
}

const std::string& run_socket::error() const { return impl_->error; }

}  // namespace troupe
