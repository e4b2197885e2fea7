// The I/O thread of a transport and its loop: sockets, timers and callbacks run on it.
#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

namespace troupe::net {

class io_thread {
 public:
  // `log` gets a line for each exception that escapes from a handler; the loop continues.
  explicit io_thread(std::function<void(const std::string&)> log) : log_(std::move(log)) {}
  ~io_thread() { join(); }
  io_thread(const io_thread&) = delete;
  io_thread& operator=(const io_thread&) = delete;

  void run();
  void stop() { io_.stop(); }
  // Waits until the loop has stopped. Called on the thread itself, it returns immediately; the
  // destructor waits then.
  void join();

  boost::asio::io_context& context() { return io_; }
  template <class F>
  void post(F&& f) {
    boost::asio::post(io_, std::forward<F>(f));
  }

 private:
  void loop() noexcept;

  const std::function<void(const std::string&)> log_;
  boost::asio::io_context io_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_ = boost::asio::make_work_guard(io_);
  std::mutex join_mutex_;
  std::thread thread_;
};

}  // namespace troupe::net
