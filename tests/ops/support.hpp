// Helpers of the ops tests: tensors from lists, lists from tensors, devices of every instruction
// set.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "ops/device.hpp"
#include "ops/registry.hpp"
#include "tests/apart/apart_device.hpp"

namespace troupe::test {

inline std::vector<std::unique_ptr<device>> all_devices() {
  std::vector<std::unique_ptr<device>> all;
  for (const char* isa : {"baseline", "x86-64-v3", "x86-64-v4", "x86-64-v4-amx"})
    if (auto d = make_cpu_device(isa)) all.push_back(std::move(d));
  return all;
}

// Devices that must satisfy the contract of ops/device.hpp, one entry each. A new backend adds one.
struct device_case {
  std::string name;
  std::shared_ptr<device> (*make)();
  friend void PrintTo(const device_case& c, std::ostream* out) { *out << c.name; }
};
// A program that tests one backend puts its entry here before main().
inline std::vector<device_case>& only_device_cases() {
  static std::vector<device_case> list;
  return list;
}
inline std::vector<device_case> device_cases() {
  if (!only_device_cases().empty()) return only_device_cases();
  std::vector<device_case> all{
      {"baseline", [] { return std::shared_ptr<device>(make_cpu_device("baseline")); }},
      {"v3", [] { return std::shared_ptr<device>(make_cpu_device("x86-64-v3")); }},
      {"v4", [] { return std::shared_ptr<device>(make_cpu_device("x86-64-v4")); }},
      {"v4_amx", [] { return std::shared_ptr<device>(make_cpu_device("x86-64-v4-amx")); }},
      {"apart",
       [] {
         apart::machine::on_finding = [](const std::string& what) { ADD_FAILURE() << "apart: " << what; };
         return std::shared_ptr<device>(apart::make_device(make_cpu_device(), std::make_shared<apart::machine>(1)));
       }},
  };
  std::erase_if(all, [](const device_case& c) { return !c.make(); });  // instruction sets that this machine does not support
  return all;
}

template <class T = double>
tensor tensor_of(device& d, shape s, const std::vector<T>& values) {
  tensor t = tensor::allocate(d, s, dtype_of<T>);
  EXPECT_EQ(t.count(), static_cast<std::int64_t>(values.size()));
  d.upload(values.data(), t);
  return t;
}
template <class T = double>
std::vector<T> values_of(const tensor& t) {
  const T* p = t.data<T>();
  return {p, p + t.count()};
}
inline double squares_of(device& d, const tensor& x) {
  tensor sum = tensor::allocate(d, {1}, dtype::f64);
  d.sum_squares(x, sum);
  return d.scalar(sum);
}
inline tensor gaussian(device& d, shape s, std::uint64_t key, dtype t = dtype::f64) {
  tensor x = tensor::allocate(d, s, t);
  d.fill_gaussian({.key = key}, 0.0, 1.0, x);
  return x;
}
inline tensor empty(device& d, shape s, dtype t = dtype::f64) { return tensor::allocate(d, s, t); }

// A stock layer, run forward once.
struct stock {
  layer_registry rows;
  stock() { add_stock_layers(rows); }
  std::unique_ptr<layer> make(const char* type, options given = {}) const {
    const layer_type* row = rows.find(type);
    return row->make(check_options(given, row->specs));
  }
  tensors forward(const layer& l, context c, const tensors& in, const tensors& params = {}) const {
    shapes dims;
    for (const auto& x : in) dims.push_back(x.dims());
    tensors out;
    for (const auto& s : l.infer(dims)) out.push_back(tensor::declare(s, in[0].type()));
    saved s;
    l.forward(c, *l.prepare(c.dev, dims, c.ph, in[0].type()), in, params, out, s);
    return out;
  }
};

}  // namespace troupe::test
