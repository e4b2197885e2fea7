#include "runtime/job/data_identity.hpp"

#include <algorithm>
#include <exception>
#include <map>
#include <mutex>

namespace troupe {
namespace {

constexpr std::int64_t most_values = 4 << 20, examples_of_many = 64;

std::string hash_of_examples(const source& s) {
  const auto size = s.size(split::train), values = s.example().count();
  if (size == 0) return {};
  const bool all = size <= most_values / std::max<std::int64_t>(values, 1);
  const auto hashed = all ? size : std::min(size, examples_of_many);
  example_hasher example(s);
  hash_of_hashes of_all;
  for (std::int64_t k = 0; k < hashed; ++k)
    of_all.add(example.read(split::train, all || hashed < 2 ? k : k * (size - 1) / (hashed - 1)));
  return "sha256 " + of_all.finish() + (all ? "" : " of " + std::to_string(hashed) + " examples");
}

struct kept_identity {
  std::once_flag once;
  std::string text;
};
using kept_identities = std::map<std::weak_ptr<const source>, std::shared_ptr<kept_identity>, std::owner_less<>>;

// That of the source, which its first user makes.
std::shared_ptr<kept_identity> kept_for(const std::shared_ptr<const source>& data) {
  static std::mutex lock;
  static kept_identities all;
  const std::lock_guard guard(lock);
  std::erase_if(all, [](const auto& e) { return e.first.expired(); });
  auto& kept = all[data];
  if (!kept) kept = std::make_shared<kept_identity>();
  return kept;
}

shape of_one_example(const source& s) {
  shape one{1};
  for (int i = 0; i < s.example().rank(); ++i) one.push_back(s.example()[i]);
  return one;
}

}  // namespace

example_hasher::example_hasher(const source& s)
    : source_(s),
      values_(static_cast<std::size_t>(s.ids() ? 0 : s.example().count())),
      targets_(static_cast<std::size_t>(s.targets() ? s.label().count() : 0)),
      ids_(static_cast<std::size_t>(s.ids() ? s.example().count() : 0)),
      labels_(static_cast<std::size_t>(s.targets() ? 0 : s.label().count())) {
  const shape label_dims{1, s.label().count()};
  if (s.ids())
    data_ = tensor::borrow(ids_.data(), of_one_example(s), dtype::i32);
  else
    data_ = tensor::borrow(values_.data(), of_one_example(s), dtype::f32);
  if (s.targets())
    label_ = tensor::borrow(targets_.data(), label_dims, dtype::f32);
  else
    label_ = tensor::borrow(labels_.data(), label_dims, dtype::i32);
}

sha256::digest example_hasher::read(split part, std::int64_t index) {
  source_.read(part, {index}, data_, label_);
  sha256 h;
  h.update(data_.raw(), data_.bytes());
  h.update(label_.raw(), label_.bytes());
  return h.finish();
}

std::string hash_of_hashes::finish() {
  const auto digest = all_.finish();
  return hex_of(digest.data(), digest.size());
}

std::string identity_of(const std::shared_ptr<const source>& data) {
  if (!data) return {};
  const auto kept = kept_for(data);
  std::call_once(kept->once, [&] {
    try {
      kept->text = hash_of_examples(*data);
    } catch (const std::exception&) {  // without data, or the job says so when it reads them
    }
  });
  return kept->text;
}

}  // namespace troupe
