#include "apps/troupe_data_card.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <unordered_set>

#include "runtime/record/sha256.hpp"

namespace troupe {
namespace {

// The sums of a channel's finite values; means and deviations by Welford's recurrence.
struct running_channel {
  double count = 0, mean = 0, squares = 0;
  double least = std::numeric_limits<double>::infinity(), most = -least;
  void add(double v) {
    count += 1;
    const double before = v - mean;
    mean += before / count;
    squares += before * (v - mean);
    least = std::min(least, v), most = std::max(most, v);
  }
  data_card::channel result() const {
    return count == 0 ? data_card::channel{} : data_card::channel{mean, std::sqrt(squares / count), least, most};
  }
};

class part_reader {
 public:
  part_reader(const source& s, split part) : source_(s), part_(part), values_(static_cast<std::size_t>(s.example().count())) {
    const auto first = s.example().rank() > 1 ? s.example()[0] : 1;
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
    sha256 all;
    std::vector<float> floats(values_);
    std::vector<std::int32_t> ids(source_.ids() ? values_ : 0), labels(static_cast<std::size_t>(source_.label().count()));
    std::vector<float> wanted(source_.targets() ? labels.size() : 0);
    shape one{1};
    for (int i = 0; i < source_.example().rank(); ++i) one.push_back(source_.example()[i]);
    auto data = source_.ids() ? tensor::borrow(ids.data(), one, dtype::i32) : tensor::borrow(floats.data(), one, dtype::f32);
    const shape label_dims{1, static_cast<std::int64_t>(labels.size())};
    auto label = source_.targets() ? tensor::borrow(wanted.data(), label_dims, dtype::f32)
                                   : tensor::borrow(labels.data(), label_dims, dtype::i32);
    for (std::int64_t i = 0; i < p.examples; ++i) {
      source_.read(part_, {i}, data, label);
      if (source_.ids()) std::copy(ids.begin(), ids.end(), floats.begin());
      p.not_finite += add(floats, channels_);
      if (source_.targets()) p.not_finite += add(wanted, targets_);
      for (const auto l : labels)
        if (l >= 0 && static_cast<std::size_t>(l) < of_class_.size()) ++of_class_[static_cast<std::size_t>(l)];
      sha256 each;
      each.update(source_.ids() ? static_cast<const void*>(ids.data()) : floats.data(), values_ * 4);
      each.update(source_.targets() ? static_cast<const void*>(wanted.data()) : labels.data(), labels.size() * 4);
      const auto digest = each.finish();
      all.update(digest.data(), digest.size());
      std::uint64_t key = 0;
      std::memcpy(&key, digest.data(), sizeof key);
      p.repeated += seen.insert(key).second ? 0 : 1;
      shared += other.contains(key) ? 1 : 0;
    }
    const auto digest = all.finish();
    if (p.examples > 0) p.sha256 = hex_of(digest.data(), digest.size());
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
  const std::size_t values_;
  std::vector<running_channel> channels_, targets_;
  std::vector<std::int64_t> of_class_;
};

}  // namespace

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
