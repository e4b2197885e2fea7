// Views of tensors: the axes of ONNX's values, as those of Troupe's tensors.
#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "runtime/node/models/onnx/import_state.hpp"

namespace troupe::onnx {

extents activation::folded() const {
  if (merged >= dims.size()) return dims;
  extents f(dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(merged));
  f.push_back(product(dims, merged));
  return f;
}

extents activation::shown() const {
  const auto f = folded();
  extents s;
  if (!joined.empty()) {
    for (const auto& group : groups_of(*this)) {
      s.push_back(1);
      for (const int a : group) s.back() *= f[static_cast<std::size_t>(a)];
    }
    return s;
  }
  for (const int a : axes) s.push_back(a < 0 ? 1 : f[static_cast<std::size_t>(a)]);
  return s;
}

bool activation::in_order() const {
  if (!joined.empty()) return false;
  for (std::size_t i = 0; i < axes.size(); ++i)
    if (axes[i] != static_cast<int>(i)) return false;
  return axes.size() == folded().size();
}

activation activation_of(std::string tensor, extents dims) {
  activation a;
  a.tensor = std::move(tensor), a.merged = dims.size(), a.dims = std::move(dims);
  a.axes.resize(a.dims.size());
  std::iota(a.axes.begin(), a.axes.end(), 0);
  return a;
}

activation seen_as(activation y, const activation& view) {
  y.merged = view.merged, y.axes = view.axes, y.joined = view.joined;
  return y;
}

axis_groups groups_of(const activation& x) {
  axis_groups groups;
  if (!x.joined.empty()) {
    auto next = x.axes.begin();
    for (const auto count : x.joined) {
      const auto end = next + static_cast<std::ptrdiff_t>(count);
      groups.emplace_back(next, end), next = end;
    }
    return groups;
  }
  for (const int a : x.axes) {
    auto& group = groups.emplace_back();
    if (a < 0) continue;
    const auto end = static_cast<std::size_t>(a) == x.merged ? x.dims.size() : static_cast<std::size_t>(a) + 1;
    for (auto k = static_cast<std::size_t>(a); k < end; ++k) group.push_back(static_cast<int>(k));
  }
  return groups;
}

namespace {

// A layer reshape from a plain tensor; the tensor before a layer reshape if that has these extents.
activation reshape_layer(importing& to, const std::string& name, activation base, const extents& shown) {
  if (const auto from = to.sources.find(base.tensor); from != to.sources.end()) base = from->second;
  if (base.dims == shown) return base;
  const auto y = add_layer(to, name, "reshape", {base}, {{"shape", extents(shown.begin() + 1, shown.end())}})[0];
  to.sources.emplace(y.tensor, base);
  return y;
}

// A layer permute from a plain tensor. `order`: of its axes behind the batch.
activation permute_layer(importing& to, const activation& base, const extents& order) {
  const std::pair key{base.tensor, order};
  if (const auto known = to.permuted.find(key); known != to.permuted.end()) return known->second;
  const auto y = add_layer(to, base.tensor + "_permuted", "permute", {base}, {{"order", order}})[0];
  return to.permuted[key] = y;
}

// x with these groups; without joined axes if each has one axis at most.
activation grouped(activation x, const axis_groups& groups) {
  x.merged = x.dims.size(), x.axes.clear(), x.joined.clear();
  for (const auto& group : groups) x.axes.insert(x.axes.end(), group.begin(), group.end());
  const bool single = std::all_of(groups.begin(), groups.end(), [](const auto& group) { return group.size() <= 1; });
  const bool batch = std::find(x.axes.begin(), x.axes.end(), 0) != x.axes.end();
  if (single && batch) {
    x.axes.clear();
    for (const auto& group : groups) x.axes.push_back(group.empty() ? -1 : group[0]);
    return x;
  }
  for (const auto& group : groups) x.joined.push_back(group.size());
  return x;
}

}  // namespace

activation plain_of(importing& to, const activation& x) {
  if (!x.joined.empty())
    throw refusal("its input " + text_of(x.shown()) + " has the batch joined with other axes: put the batch in front of it");
  if (x.causal) throw refusal("its input has masked columns, which only a Softmax may read");
  auto y = activation_of(x.tensor, x.dims);
  y.ids = x.ids;
  if (x.merged < x.dims.size()) {
    const auto known = to.flattened.find(x.tensor);
    if (x.merged == 1 && known != to.flattened.end()) {
      y = known->second;
    } else if (x.merged == 1) {
      y = add_layer(to, x.tensor + "_flatten", "flatten", {y})[0];
      to.flattened.emplace(x.tensor, y);
    } else {
      y = reshape_layer(to, x.tensor + "_merged", y, x.folded());
    }
  }
  if (x.in_order()) return y;
  const auto shown = x.shown();
  auto order = x.axes;
  std::erase(order, -1);
  if (order.empty() || order[0] != 0 || x.axes[0] != 0)
    throw refusal("its input " + text_of(shown) + " is transposed: the batch is not in front");
  if (!std::is_sorted(order.begin(), order.end())) y = permute_layer(to, y, extents(order.begin() + 1, order.end()));
  return shown == y.dims ? y : reshape_layer(to, x.tensor + "_reshaped", y, shown);
}

std::int64_t batch_in_front::axis(std::int64_t a) const {
  const auto p = static_cast<std::int64_t>(place);
  if (a == p) return 0;
  return a < p ? a + 1 : a;
}

activation batch_in_front::back(const activation& y) const {
  auto x = y;
  for (std::size_t a = 0; a < x.axes.size(); ++a) x.axes[a] = y.axes[static_cast<std::size_t>(axis(static_cast<std::int64_t>(a)))];
  return x;
}

batch_in_front with_batch_in_front(importing& to, const activation& x) {
  const auto batch = std::find(x.axes.begin(), x.axes.end(), 0);
  if (!x.joined.empty() || batch == x.axes.end()) return {plain_of(to, x), 0};
  auto turned = x;
  const auto place = batch - x.axes.begin();
  std::rotate(turned.axes.begin(), turned.axes.begin() + place, turned.axes.begin() + place + 1);
  return {plain_of(to, turned), static_cast<std::size_t>(place)};
}

activation settled_view::seen(activation y) const {
  const bool causal = plain.causal;
  y = grouped(std::move(y), groups);
  y.causal = causal;
  return y;
}

std::int64_t settled_view::own(std::size_t a) const {
  if (groups[a].size() != 1 || groups[a][0] == 0)
    throw refusal("axis " + std::to_string(a) + " of its input " + text_of(view().shown()) + " has the batch in it");
  return groups[a][0];
}

settled_view settled(importing& to, const activation& x) {
  if (x.joined.empty()) {
    const auto turned = with_batch_in_front(to, x);
    axis_groups each;
    for (std::int64_t a = 0; a < std::ssize(x.axes); ++a) each.push_back({static_cast<int>(turned.axis(a))});
    return {turned.plain, each};
  }
  auto groups = groups_of(x);
  extents order, moved, dims{x.dims.empty() ? 1 : x.dims[0]};  // `moved`: those of `order` whose extent is not 1
  for (auto& group : groups) {
    axis_groups::value_type runs;
    bool open = false;  // the last axis of `dims` is of this group and side of the batch
    for (const int a : group) {
      open &= a != 0;
      if (a == 0) {
        runs.push_back(0);
        continue;
      }
      order.push_back(a);
      const auto extent = x.dims[static_cast<std::size_t>(a)];
      if (extent > 1) moved.push_back(a);
      if (open) {
        dims.back() *= extent;
        continue;
      }
      open = true;
      runs.push_back(static_cast<int>(dims.size())), dims.push_back(extent);
    }
    if (group.empty()) runs.push_back(static_cast<int>(dims.size())), dims.push_back(1);
    group = std::move(runs);
  }
  auto base = activation_of(x.tensor, x.dims);
  base.ids = x.ids;
  if (!std::is_sorted(moved.begin(), moved.end())) base = permute_layer(to, base, order);
  if (base.dims != dims) base = reshape_layer(to, x.tensor + "_reshaped", base, dims);
  base.causal = x.causal;
  return {base, groups};
}

namespace {

// The axes of a tensor in the order of ONNX's value, each of which a reshape may divide.
class axis_reader {
 public:
  axis_reader(const activation& x, axis_groups groups) : pieces_(x.dims.size()) {
    for (const auto& group : groups)
      for (const int a : group) order_.push_back(a), left_.push_back(x.dims[static_cast<std::size_t>(a)]);
  }

  // Takes axes, or a part of one, whose product is `extent`. False: there are none.
  bool take(std::int64_t extent) {
    auto& group = taken_.emplace_back();
    while (extent > 1 || (group.empty() && at_ < order_.size() && left_[at_] == 1)) {
      if (at_ == order_.size()) return false;
      const auto rest = left_[at_];
      const auto part = extent % rest == 0 ? rest : extent;
      if (rest % part != 0 || (part != rest && order_[at_] == 0)) return false;
      auto& pieces = pieces_[static_cast<std::size_t>(order_[at_])];
      group.emplace_back(order_[at_], pieces.size());
      pieces.push_back(part), left_[at_] /= part, extent /= part;
      if (part == rest) ++at_;
    }
    return true;
  }
  // The axes of extent 1 that are left belong to the last group.
  bool finish() {
    for (; at_ < order_.size(); ++at_) {
      if (left_[at_] != 1 || taken_.empty()) return false;
      auto& pieces = pieces_[static_cast<std::size_t>(order_[at_])];
      taken_.back().emplace_back(order_[at_], pieces.size()), pieces.push_back(1);
    }
    return true;
  }

  // Extents of the tensor with its axes divided.
  extents dims(const extents& whole) const {
    extents all;
    for (std::size_t a = 0; a < whole.size(); ++a) {
      if (pieces_[a].empty()) all.push_back(whole[a]);
      all.insert(all.end(), pieces_[a].begin(), pieces_[a].end());
    }
    return all;
  }
  axis_groups groups() const {
    std::vector<int> first{0};
    for (const auto& p : pieces_) first.push_back(first.back() + static_cast<int>(std::max<std::size_t>(p.size(), 1)));
    axis_groups all;
    for (const auto& group : taken_) {
      all.emplace_back();
      for (const auto& [axis, piece] : group) all.back().push_back(first[static_cast<std::size_t>(axis)] + static_cast<int>(piece));
    }
    return all;
  }

 private:
  std::vector<int> order_;
  extents left_;                 // of each of `order_`
  std::size_t at_ = 0;           // in `order_`
  std::vector<extents> pieces_;  // of each axis of the tensor
  std::vector<std::vector<std::pair<int, std::size_t>>> taken_;
};

// A batch of 1, wherever the reshape has put it, is the first axis of extent 1 that is no other.
void place_batch_of_one(axis_groups& groups) {
  const auto free = std::find_if(groups.begin(), groups.end(), [](const auto& group) { return group.empty(); });
  if (free != groups.end()) free->push_back(0);
}

// x with other extents, where the batch is joined with other axes, or was. Nothing: an axis would
// have a part of the batch, or a part of an axis that does not divide it.
std::optional<activation> regrouped(importing& to, const std::string& name, const activation& x, const extents& shown) {
  auto groups = groups_of(x);
  const bool one = !x.dims.empty() && x.dims[0] == 1;
  if (one)
    for (auto& group : groups) std::erase(group, 0);
  axis_reader reader(x, groups);
  for (const auto e : shown)
    if (!reader.take(e)) return std::nullopt;
  if (!reader.finish()) return std::nullopt;
  auto base = activation_of(x.tensor, x.dims);
  base.ids = x.ids;
  if (const auto dims = reader.dims(x.dims); dims != x.dims) base = reshape_layer(to, name, base, dims);
  groups = reader.groups();
  if (one) place_batch_of_one(groups);
  const auto y = grouped(base, groups);
  const bool alone = std::any_of(groups.begin(), groups.end(), [](const auto& group) { return group == std::vector<int>{0}; });
  return y.joined.empty() || !alone ? y : settled(to, y).view();
}

}  // namespace

activation reshaped_by_layer(importing& to, const std::string& name, const activation& x, const extents& shown) {
  if (x.joined.empty()) {
    try {
      return reshaped(x, shown);
    } catch (const refusal&) {
      if (shown.size() >= 2 && !x.axes.empty() && x.axes[0] == 0 && shown[0] == x.dims[0])
        return reshape_layer(to, name, plain_of(to, x), shown);
    }
  }
  if (x.causal) throw refusal("its input has masked columns, which only a Softmax may read");
  if (auto y = regrouped(to, name, x, shown)) return *std::move(y);
  throw refusal("a reshape from " + text_of(x.shown()) + " to " + text_of(shown) +
                " is not supported: the batch N must stay whole");
}

activation reshaped(const activation& x, const extents& to) {
  if (to == x.shown()) return x;
  const auto refused = [&] { return refusal("a reshape from " + text_of(x.shown()) + " to " + text_of(to) + " is not supported"); };
  for (std::size_t i = 0, last = 0; i < x.axes.size(); ++i) {
    if (x.axes[i] < 0) continue;
    if (static_cast<std::size_t>(x.axes[i]) < last) throw refused();
    last = static_cast<std::size_t>(x.axes[i]);
  }
  if (to.empty() || x.dims.empty() || to[0] != x.dims[0]) throw refused();
  auto y = activation_of(x.tensor, x.dims);
  y.ids = x.ids;
  // Axes of extent 1 are added: the others are Troupe's, or ONNX's before, in order.
  for (const auto merged : {x.dims.size(), x.merged}) {
    y.merged = merged, y.axes.clear();
    const auto f = y.folded();
    std::size_t next = 0;
    for (const auto e : to) {
      if (next < f.size() && f[next] == e)
        y.axes.push_back(static_cast<int>(next++));
      else if (e == 1)
        y.axes.push_back(-1);
      else
        break;
    }
    if (next == f.size() && y.axes.size() == to.size()) return y;
  }
  // The axes from the last of `to` on are merged.
  if (to.size() > x.dims.size() || !std::equal(to.begin(), to.end() - 1, x.dims.begin()) || to.size() < 2) throw refused();
  y.merged = to.size() - 1;
  if (product(x.dims, y.merged) != to.back()) throw refused();
  y.axes.resize(to.size());
  std::iota(y.axes.begin(), y.axes.end(), 0);
  return y;
}

activation with_axes_turned(const activation& x, const extents& order) {
  auto y = x;
  if (x.joined.empty()) {
    for (std::size_t i = 0; i < order.size(); ++i) y.axes[i] = x.axes[static_cast<std::size_t>(order[i])];
    return y;
  }
  const auto groups = groups_of(x);
  axis_groups turned;
  for (const auto a : order) turned.push_back(groups[static_cast<std::size_t>(a)]);
  return grouped(y, turned);
}

activation dropped(importing& to, const std::string& name, activation x, const extents& axes) {
  const auto shown = x.shown();
  bool all_added = x.joined.empty();
  auto left_shown = shown;
  auto left = x.axes;
  for (const auto a : axes) {
    const auto k = static_cast<std::size_t>(a);
    if (shown[k] != 1) throw refusal("axis " + std::to_string(a) + " of " + text_of(shown) + " is not 1");
    all_added = all_added && x.axes[k] < 0;
    left_shown.erase(left_shown.begin() + a);
    if (x.joined.empty()) left.erase(left.begin() + a);
  }
  if (all_added) {
    x.axes = std::move(left);
    return x;
  }
  std::erase(left, -1);
  if (x.joined.empty() && std::is_sorted(left.begin(), left.end())) {
    auto base = activation_of(x.tensor, x.dims);
    base.merged = x.merged, base.ids = x.ids;
    base.axes.resize(base.folded().size());
    std::iota(base.axes.begin(), base.axes.end(), 0);
    return reshaped_by_layer(to, name, base, left_shown);
  }
  return reshaped_by_layer(to, name, x, left_shown);
}

}  // namespace troupe::onnx
