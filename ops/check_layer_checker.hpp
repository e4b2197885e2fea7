// The checks of check_layer; each group is in its own file (check_layer_*.cpp).
#pragma once

#include <set>

#include "ops/check_layer_passes.hpp"
#include "ops/real_text.hpp"

namespace troupe {

inline std::string numbered(const char* what, std::size_t i) { return std::string(what) + " " + std::to_string(i); }

class layer_checker : layer_passes {
 public:
  using layer_passes::layer_passes;
  std::vector<std::string> run();
  const layer_coverage& seen() const { return seen_; }

 private:
  void find(std::string what) { findings_.push_back(std::move(what)); }

  void check_written(const char* what, const tensors& got, const shapes& declared);
  void check_inputs();
  void check_contract(const pass_values& v);
  void check_saved(const pass_values& v, const tensors& out, const saved& s);
  void check_mean_weight(const pass_values& v);
  void check_statistics(const pass_values& v);
  void check_test_phase(const pass_values& v);

  struct drawn;
  void check_gradients();
  void check_draw(const drawn& d);
  void check_gradient(const std::string& what, const drawn& d, tensors pass_values::*list, std::size_t i, const tensor& gradient);
  std::string compare(const drawn& d, tensors pass_values::*list, std::size_t i, std::int64_t j, double analytic);
  void note_range(const tensors& in);
  void check_skipping(const pass_values& v);
  void check_accumulate(const pass_values& v);

  void check_f32(const pass_values& v);
  void check_bf16(const pass_values& given);
  void compare_types(const char* what, const tensors& wide, const tensors& narrow, double tolerance);

  void check_purity();
  void check_in_place(const pass_values& given);
  void check_gathered();

  std::vector<std::string> findings_;
  layer_coverage seen_;
  std::set<std::string> wrong_;  // tensors for which a wrong gradient was reported
};

}  // namespace troupe
