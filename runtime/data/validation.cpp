#include "runtime/data/validation.hpp"

#include <array>
#include <utility>

#include "runtime/data/test_split.hpp"

namespace troupe {
namespace {

class validated_source final : public source {
 public:
  validated_source(std::shared_ptr<const source> of, double fraction, std::uint64_t seed) : of_(std::move(of)) {
    const auto n = of_->size(split::train);
    const auto chosen = chosen_for_test(static_cast<std::size_t>(n), fraction, seed);
    for (std::int64_t i = 0; i < n; ++i) rows_[chosen[static_cast<std::size_t>(i)] ? 1 : 0].push_back(i);
  }

  shape example() const override { return of_->example(); }
  std::int64_t classes() const override { return of_->classes(); }
  shape label() const override { return of_->label(); }
  bool targets() const override { return of_->targets(); }
  bool ids() const override { return of_->ids(); }
  bool ignores_labels() const override { return of_->ignores_labels(); }
  std::int64_t vocabulary() const override { return of_->vocabulary(); }
  std::vector<std::string> symbols() const override { return of_->symbols(); }
  std::vector<std::string> class_names() const override { return of_->class_names(); }
  std::int64_t size(split s) const override { return static_cast<std::int64_t>(rows(s).size()); }
  channel_order picture_order() const override { return of_->picture_order(); }
  bool decodes() const override { return of_->decodes(); }
  void read(split s, const std::vector<std::int64_t>& indices, tensor& data, tensor& label) const override {
    of_->read(split::train, numbers(s, indices), data, label);
  }
  std::optional<byte_scaling> bytes() const override { return of_->bytes(); }
  void read_bytes(split s, const std::vector<std::int64_t>& indices, std::uint8_t* out) const override {
    of_->read_bytes(split::train, numbers(s, indices), out);
  }
  bool resizes() const override { return of_->resizes(); }
  std::shared_ptr<const table_layout> table() const override { return of_->table(); }

 private:
  const std::vector<std::int64_t>& rows(split s) const { return rows_[s == split::train ? 0 : 1]; }
  std::vector<std::int64_t> numbers(split s, std::vector<std::int64_t> indices) const {
    for (auto& i : indices)
      if (i >= 0) i = rows(s)[static_cast<std::size_t>(i)];
    return indices;
  }

  std::shared_ptr<const source> of_;
  std::array<std::vector<std::int64_t>, 2> rows_;  // numbers of training examples of `of_`
};

}  // namespace

std::shared_ptr<const source> with_validation(std::shared_ptr<const source> of, double fraction, std::uint64_t seed) {
  return std::make_shared<validated_source>(std::move(of), fraction, seed);
}

}  // namespace troupe
