#include "runtime/job/plan_hash.hpp"

#include "runtime/record/sha256.hpp"

namespace troupe {

std::string plan_hash(const job_plan& p) {
  std::string text;
  const auto number = [&](auto v) { text += std::to_string(v) + ","; };
  const auto list = [&](const std::vector<std::uint32_t>& v) {
    for (auto x : v) number(x);
    text += ";";
  };
  for (const auto& r : p.roles) {
    text += r.name + ":";
    number(static_cast<unsigned>(r.kind));
    number(r.node);
    number(r.device);
    list(r.layers);
    list(r.in_edges);
    list(r.out_edges);
  }
  for (const auto& e : p.edges)
    for (auto v : {index_of(e.from), index_of(e.to), std::uint32_t{e.from_port}, std::uint32_t{e.to_port},
                   std::uint32_t{e.grad_back}, e.packets.first, e.packets.count, e.credit})
      number(v);
  for (const auto& e : p.edges)
    for (auto v :
         {e.region.begin, e.region.end, e.need.begin, e.need.end, std::int64_t{e.addend}, static_cast<std::int64_t>(e.wire)})
      number(v);
  for (const auto& b : p.blocks) {
    number(b.param);
    number(b.begin);
    number(b.count);
    number(b.run);
    number(b.stride);
    number(index_of(b.shard));
    list(b.takers);
  }
  for (const auto& r : p.ranges) {
    number(r.first);
    number(r.count);
  }
  number(p.packets);
  number(p.sub_solvers);
  number(static_cast<std::uint32_t>(p.rule));
  for (auto d : p.delay) number(d);
  return sha256_hex(text.data(), text.size());
}

}  // namespace troupe
