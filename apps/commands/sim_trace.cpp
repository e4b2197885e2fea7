#include "apps/commands/sim_trace.hpp"

#include <nlohmann/json.hpp>

namespace troupe {
namespace {

// Microseconds with three decimals, that is, in nanosecond resolution.
std::string micros(time_point t) {
  const auto n = t.count();
  auto rest = std::to_string(n % 1000);
  return std::to_string(n / 1000) + "." + std::string(3 - rest.size(), '0') + rest;
}

}  // namespace

sim_trace::sim_trace(const std::string& file, const job_plan& plan) : out_(file), plan_(plan) {
  out_ << "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[";
  for (std::size_t n = 0; n < plan.nodes.size(); ++n) {
    item();
    out_ << R"({"ph":"M","name":"process_name","pid":)" << n << R"(,"args":{"name":)" << nlohmann::json(plan.nodes[n].name) << "}}";
  }
  for (const auto& r : plan.roles) {
    item();
    out_ << R"({"ph":"M","name":"thread_name","pid":)" << r.node << R"(,"tid":)" << index_of(r.id) << R"(,"args":{"name":)"
         << nlohmann::json(r.name) << "}}";
  }
}

void sim_trace::item() {
  out_ << (first_ ? "\n" : ",\n");
  first_ = false;
}

void sim_trace::task(role_id who, const char* kind, time_point begin, time_point end) {
  item();
  out_ << R"({"ph":"X","cat":"task","name":")" << kind << R"(","pid":)" << plan_[who].node << R"(,"tid":)" << index_of(who)
       << R"(,"ts":)" << micros(begin) << R"(,"dur":)" << micros(end - begin) << "}";
}

void sim_trace::message(const envelope& e, time_point sent, time_point arrived) {
  if (index_of(e.h.src) >= plan_.roles.size()) return;
  const auto id = messages_++;
  const auto& from = plan_[e.h.src];
  const auto one = [&](const char* ph, time_point at) {
    item();
    out_ << R"({"cat":"message","ph":")" << ph << R"(","name":")" << name_of(e.body) << R"(","id":)" << id << R"(,"pid":)"
         << from.node << R"(,"tid":)" << index_of(from.id) << R"(,"ts":)" << micros(at);
    if (*ph == 'b')
      out_ << R"(,"args":{"to":)" << nlohmann::json(plan_[e.h.dst].name) << R"(,"step":)" << e.h.step << R"(,"bytes":)"
           << tensor_bytes(e.body) << "}";
    out_ << "}";
  };
  one("b", sent);
  one("e", arrived);
}

bool sim_trace::finish() {
  out_ << "\n]}\n";
  out_.close();
  return !out_.fail();
}

}  // namespace troupe
