// What the holder of a page's token may do, and the page's access to a backend within these rights.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/result.hpp"
#include "runtime/cluster/view/view.hpp"

namespace troupe {

enum class page_role : std::uint8_t {
  observer,  // looks
  operates,  // "operator": also submits and steers all jobs
  admin,     // everything, as injecting faults
};
const char* text_of(page_role r);
std::optional<page_role> page_role_named(std::string_view word);
std::string page_roles_text();  // "observer, operator, admin"
bool may(page_role r, right what);

// Passes on to `inner` what the role allows. `inner` must allow everything, and outlive the object.
// Threads: those of `inner`.
class page_backend final : public repl_backend {
 public:
  page_backend(repl_backend& inner, page_role role) : inner_(inner), role_(role) {}

  repl_view view() const override { return inner_.view(); }
  const repl_events& events() const override { return inner_.events(); }
  expected<void> check(right what, const std::string& doing) const override;
  expected<void> check_read(job_route by, std::uint32_t job) const override;
  expected<command_id> tell(std::uint32_t job, command c) override;
  expected<std::uint32_t> submit(const repl_submission& s) override;
  expected<void> inject(const injection& i) override;

 private:
  repl_backend& inner_;
  const page_role role_;
};

}  // namespace troupe
