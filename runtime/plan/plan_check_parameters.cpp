#include "runtime/plan/plan_check_parameters.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "runtime/base/wording.hpp"

namespace troupe {
namespace {

// Checks that every element of a parameter has one owner and is sent where it is used.
class parameter_checker {
 public:
  parameter_checker(const job_plan& p, const model_graph& g, const parts_by_layer& parts) : p_(p), g_(g), parts_(parts) {
    blocks_.resize(g_.params.size());
    for (std::uint32_t b = 0; b < p_.blocks.size(); ++b) blocks_[p_.blocks[b].param].push_back(b);
  }

  std::vector<plan_fault> run() {
    for (std::uint32_t q = 0; q < g_.params.size(); ++q) check_parameter(q);
    return std::move(faults_);
  }

 private:
  void fault(const graph_layer& l, const std::string& text) {
    faults_.push_back({static_cast<std::int32_t>(l.index), "layer " + in_quotes(l.name) + ": " + text});
  }

  // Length of the rows that columns are cut from; 0: no block of the parameter is cut along axis 1.
  std::int64_t row_of(std::uint32_t q) {
    for (auto b : blocks_[q])
      if (p_.blocks[b].run > 0) return g_.params[q].spec.dims.rank() > 0 ? g_.params[q].spec.dims.count_from(1) : 0;
    return 0;
  }
  // A range of elements as a rectangle to cover: an interval of all elements, or rows x columns.
  struct area {
    span_of rows, columns;
  };
  static std::optional<area> along(const element_range& e, std::int64_t row, std::int64_t all) {
    if (row == 0) return e.run == 0 ? std::optional(area{{0, 1}, {e.begin, e.begin + e.count}}) : std::nullopt;
    if (e.run == 0) return e.begin == 0 && e.count == all ? std::optional(area{{0, all / row}, {0, row}}) : std::nullopt;
    if (e.stride != row || e.begin < 0 || e.begin % row + e.run > row || e.count % e.run != 0) return std::nullopt;
    const auto first = e.begin / row, column = e.begin % row;
    if (first + e.count / e.run > all / row) return std::nullopt;
    return area{{first, first + e.count / e.run}, {column, column + e.run}};
  }
  // The columns that a part of a layer uses; they must extend over all rows.
  static std::optional<span_of> columns_of(const element_range& e, std::int64_t row, std::int64_t all) {
    const auto here = along(e, row, all);
    if (!here || (row > 0 && !(here->rows == span_of{0, all / row}))) return std::nullopt;
    return here->columns;
  }

  void check_parameter(std::uint32_t q) {
    const auto& param = g_.params[q];
    const auto& l = g_.layers[param.layer];
    const auto name = "parameter " + in_quotes(param.full_name);
    const auto all = param.spec.dims.count(), row = row_of(q);
    std::vector<claim> claims;
    for (auto b : blocks_[q]) {
      const auto& block = p_.blocks[b];
      const auto which = "block " + std::to_string(b) + " of " + name;
      if (block.id != b) return fault(l, which + " has id " + std::to_string(block.id));
      if (block.count <= 0) return fault(l, which + " is empty");
      if (p_[block.shard].group != 0) return fault(l, name + ": " + p_[block.shard].name + " is not in server group 0");
      const auto here = along({block.begin, block.count, block.run, block.stride}, row, all);
      if (!here) return fault(l, which + " is neither a contiguous range of elements nor a range of columns");
      claims.push_back({here->rows, here->columns, b});
    }
    const auto owner = [&](std::uint32_t b) { return p_[p_.blocks[b].shard].name + " (block " + std::to_string(b) + ")"; };
    if (const auto f = exact_cover(claims, {0, row > 0 ? all / row : 1}, {0, row > 0 ? row : all})) {
      const auto some = name + ", " + counted("element", "elements", f->features) + (row > 0 ? " of each row" : "");
      if (f->kind == cover_fault::what::missing) return fault(l, some + ": no shard owns them");
      if (f->kind == cover_fault::what::twice)
        return fault(l, some + ": both " + owner(f->first) + " and " + owner(f->second) + " own them");
      return fault(l, some + " of " + owner(f->first) + ": out of range, there are " + std::to_string(row > 0 ? row : all));
    }
    check_takers(q, row);
  }

  void check_takers(std::uint32_t q, std::int64_t row) {
    const auto& param = g_.params[q];
    const auto& l = g_.layers[param.layer];
    const auto all = param.spec.dims.count();
    std::map<std::uint32_t, span_of> uses;  // by worker
    std::set<std::uint32_t> idle;           // workers that host a part of the layer without elements of this parameter
    for (const auto& at : parts_[param.layer]) {
      const auto elements = elements_of(g_, q, at.part());
      const auto here = columns_of(elements, row, all);
      if (elements.count > 0 && !here) return fault(l, at.stage->name + " uses other columns of " + in_quotes(param.full_name));
      if (elements.count > 0)
        uses.try_emplace(at.stage->worker, *here);
      else
        idle.insert(at.stage->worker);
    }
    // The usual case needs no further check: every worker has the whole parameter.
    const auto all_here = [&](const auto& u) { return u.first < p_.ranges.size() && u.second == span_of{0, row > 0 ? row : all}; };
    const auto dealt = [&](auto b) { return p_.blocks[b].takers.empty(); };
    if (idle.empty() && uses.size() == p_.ranges.size() && std::all_of(uses.begin(), uses.end(), all_here) &&
        std::all_of(blocks_[q].begin(), blocks_[q].end(), dealt))
      return;
    for (auto b : blocks_[q])
      if (!check_block(q, b,
                       along({p_.blocks[b].begin, p_.blocks[b].count, p_.blocks[b].run, p_.blocks[b].stride}, row, all)->columns,
                       uses, idle))
        return;
  }

  using uses_by_worker = std::map<std::uint32_t, span_of>;

  bool check_block(std::uint32_t q, std::uint32_t b, span_of owned, const uses_by_worker& uses,
                   const std::set<std::uint32_t>& idle) {
    const auto& block = p_.blocks[b];
    const auto says = [&](std::uint32_t w, const char* before, const char* after) {
      fault(g_.layers[g_.params[q].layer], p_[p_.workers[w]].name + before + "block " + std::to_string(b) + " of parameter " +
                                               in_quotes(g_.params[q].full_name) + after);
      return false;
    };
    for (const auto& [w, here] : uses) {
      const bool used = both(owned, here).count() > 0, taken = p_.takes(w, block);
      if (used && !taken) return says(w, " uses ", " but does not receive it");
      if (!used && taken) return says(w, " receives ", " but does not use it");
      if (used && !(both(owned, here) == owned)) return says(w, " uses only a part of ", "");
    }
    std::vector<std::uint32_t> takers = block.takers;
    if (takers.empty())
      for (std::uint32_t w = 0; w < p_.ranges.size(); ++w) takers.push_back(w);
    for (auto w : takers) {
      if (idle.count(w)) return says(w, " receives ", " but does not use it");
      if (!uses.count(w)) return says(w, " receives ", " but has no part of the layer");
    }
    return true;
  }

  const job_plan& p_;
  const model_graph& g_;
  const parts_by_layer& parts_;
  std::vector<plan_fault> faults_;
  std::vector<std::vector<std::uint32_t>> blocks_;  // by parameter
};

}  // namespace

span_of both(span_of a, span_of b) { return {std::max(a.begin, b.begin), std::min(a.end, b.end)}; }

std::string counted(const char* one, const char* many, span_of s) {
  if (s.count() == 1) return std::string(one) + " " + std::to_string(s.begin);
  return std::string(many) + " " + std::to_string(s.begin) + " to " + std::to_string(s.end - 1);
}

std::vector<plan_fault> check_parameters(const job_plan& p, const model_graph& g, const parts_by_layer& parts) {
  return parameter_checker(p, g, parts).run();
}

}  // namespace troupe
