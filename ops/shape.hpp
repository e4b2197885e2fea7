// Shape of a tensor: up to six extents, outermost first (N, C, H, W for images). A value type
// without heap memory.
// Errors: none; extents are checked where a shape is made from user input (layer::infer).
// Threads: a plain value.
#pragma once

#include <array>
#include <cassert>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

namespace troupe {

class shape {
 public:
  static constexpr int max_rank = 6;

  shape() = default;
  shape(std::initializer_list<std::int64_t> dims) {
    assert(dims.size() <= max_rank);
    for (auto d : dims) dims_[static_cast<std::size_t>(rank_++)] = d;
  }

  int rank() const { return rank_; }
  std::int64_t operator[](int axis) const {
    assert(axis >= 0 && axis < rank_);
    return dims_[static_cast<std::size_t>(axis)];
  }
  void set(int axis, std::int64_t extent) {
    assert(axis >= 0 && axis < rank_);
    dims_[static_cast<std::size_t>(axis)] = extent;
  }
  void push_back(std::int64_t extent) {
    assert(rank_ < max_rank);
    dims_[static_cast<std::size_t>(rank_++)] = extent;
  }

  // Number of elements; 1 for a scalar (rank 0).
  std::int64_t count() const { return count_from(0); }
  // Product of the extents from `axis` on; 1 if axis == rank().
  std::int64_t count_from(int axis) const {
    std::int64_t n = 1;
    for (int i = axis; i < rank_; ++i) n *= (*this)[i];
    return n;
  }

  friend bool operator==(const shape& a, const shape& b) {
    if (a.rank_ != b.rank_) return false;
    for (int i = 0; i < a.rank_; ++i)
      if (a[i] != b[i]) return false;
    return true;
  }

  // "64x1x28x28"; "scalar" for rank 0.
  std::string to_string() const {
    if (rank_ == 0) return "scalar";
    std::string s;
    for (int i = 0; i < rank_; ++i) {
      if (i > 0) s += 'x';
      s += std::to_string((*this)[i]);
    }
    return s;
  }

 private:
  std::array<std::int64_t, max_rank> dims_{};
  int rank_ = 0;
};

using shapes = std::vector<shape>;

}  // namespace troupe
