#include "apps/commands/prepare/data_card.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <stdexcept>
#include <unordered_set>

#include "runtime/base/number_text.hpp"
#include "runtime/job/data_identity.hpp"

namespace troupe {
namespace {

class part_reader {
 public:
  part_reader(const source& s, split part) : source_(s), part_(part) {
    const auto rank = s.example().rank();
    const auto first = rank > 1 || (rank == 1 && !s.ids()) ? s.example()[0] : 1;
    channels_.resize(static_cast<std::size_t>(first <= data_card::most_channels ? first : 1));
    of_class_.resize(static_cast<std::size_t>(s.classes()));
    const auto targets = s.targets() ? s.label().count() : 0;
    targets_.resize(static_cast<std::size_t>(targets <= data_card::most_channels ? targets : 1));
  }

  // `seen`: hashes of the examples of this split and, in `other`, of the other one.
  data_card::part read(std::unordered_set<std::uint64_t>& seen, const std::unordered_set<std::uint64_t>& other,
                       std::int64_t& shared) {
    data_card::part p;
    p.examples = source_.size(part_);
    example_hasher example(source_);
    hash_of_hashes all;
    std::vector<float> of_ids;
    for (std::int64_t i = 0; i < p.examples; ++i) {
      const auto digest = example.read(part_, i);
      of_ids.assign(example.ids().begin(), example.ids().end());
      p.not_finite += add(source_.ids() ? of_ids : example.values(), channels_);
      if (source_.targets()) p.not_finite += add(example.targets(), targets_);
      for (const auto l : example.labels())
        if (l >= 0 && static_cast<std::size_t>(l) < of_class_.size()) ++of_class_[static_cast<std::size_t>(l)];
      all.add(digest);
      std::uint64_t key = 0;
      std::memcpy(&key, digest.data(), sizeof key);
      p.repeated += seen.insert(key).second ? 0 : 1;
      shared += other.contains(key) ? 1 : 0;
    }
    if (p.examples > 0) p.sha256 = all.finish();
    for (const auto& c : channels_) p.channels.push_back(c.result());
    for (const auto& c : targets_) p.targets.push_back(c.result());
    p.of_class = of_class_;
    return p;
  }

 private:
  // Returns the number of values that are not finite.
  static std::int64_t add(const std::vector<float>& values, std::vector<running_channel>& to) {
    std::int64_t bad = 0;
    const auto area = values.size() / to.size();
    for (std::size_t c = 0; c < to.size(); ++c)
      for (std::size_t k = c * area; k < (c + 1) * area; ++k)
        if (std::isfinite(values[k]))
          to[c].add(static_cast<double>(values[k]));
        else
          ++bad;
    return bad;
  }

  const source& source_;
  const split part_;
  std::vector<running_channel> channels_, targets_;
  std::vector<std::int64_t> of_class_;
};

}  // namespace

double rounded_to_unit(double v, double unit) {
  const double ratio = std::abs(v / unit);
  const int more = ratio > 1 ? static_cast<int>(std::min(std::ceil(std::log10(ratio)), 13.0)) : 0;
  double out = v;
  read_number(general_text(v, 4 + more), out);
  return out;
}

std::optional<standard_scaling> standard_scaling_of(const data_card& c, const option_specs& specs, const input_format& f) {
  const auto spec = [&](const char* name) {
    return std::find_if(specs.begin(), specs.end(), [name](const option_spec& o) { return o.name == name; });
  };
  standard_scaling out;
  const bool by_channel = spec("channel_scale") != specs.end() && spec("channel_mean") != specs.end();
  if (by_channel) out.scale_key = "channel_scale", out.mean_key = "channel_mean";
  if (c.ids || spec(out.scale_key) == specs.end() || spec(out.mean_key) == specs.end() || c.train.channels.empty())
    return std::nullopt;
  out.list = spec(out.scale_key)->kind == option_kind::reals;
  auto channels = c.train.channels;
  if (!out.list) {  // one pair for all
    data_card::channel all;
    for (const auto& x : channels) all.mean += x.mean / static_cast<double>(channels.size());
    double squares = 0;
    for (const auto& x : channels) {
      const double off = x.mean - all.mean;
      squares += (x.deviation * x.deviation + off * off) / static_cast<double>(channels.size());
    }
    all.deviation = std::sqrt(squares);
    channels = {all};
  }
  // The values are number * scale - mean with the options as they are.
  bool standard = true;
  for (std::size_t k = 0; k < channels.size(); ++k) {
    const auto& x = channels[k];
    const double deviation = x.deviation > 0 ? x.deviation : 1;
    const auto now = [&](const std::vector<double>& list, double otherwise) {
      return list.size() == channels.size() ? list[k] : list.size() == 1 ? list[0] : otherwise;
    };
    out.scale.push_back(now(f.scale, 1) / deviation);
    out.mean.push_back((now(f.mean, 0) + x.mean) / deviation);
    standard = standard && std::abs(x.mean) < 0.05 && std::abs(deviation - 1) < 0.05;
  }
  if (standard || (f.scale.size() > 1 && f.scale.size() != channels.size())) return std::nullopt;
  return out;
}

expected<data_card> card_of(const source& s) {
  data_card c;
  c.example = s.example(), c.label = s.label(), c.ids = s.ids(), c.vocabulary = s.vocabulary();
  try {
    std::unordered_set<std::uint64_t> train, test;
    std::int64_t none = 0;
    c.train = part_reader(s, split::train).read(train, {}, none);
    c.test = part_reader(s, split::test).read(test, train, c.shared);
  } catch (const std::runtime_error& e) {
    return unexpected(error(e.what()));
  }
  return c;
}

}  // namespace troupe
