// Fillers: initial values of parameters, as defined by Caffe. n is fan_in = count / dims[0],
// fan_out = count / dims[1], or their mean, as `norm` says:
//   constant  value
//   uniform   in (min, max)
//   gaussian  mean, std
//   xavier    uniform in (-s, s), s = sqrt(3 / n)          Glorot and Bengio 2010
//   msra      gaussian, mean 0, std = sqrt(2 / n)          He et al. 2015
//   bilinear  of a deconvolution with kernel 2 f - f mod 2 and stride f, one group a channel: a
//             linear enlargement by f; products of 1 - |x / ceil(k / 2) - c| over the two last axes
// Random numbers come from a Philox stream of (seed, layer, parameter): the same on every machine,
// and the same for f32 and f64 up to rounding.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ops/layer.hpp"

namespace troupe {

class device;

std::vector<std::string> filler_kinds();
option_specs filler_options(const std::string& kind);

// Parses a table such as {kind = "gaussian", std = 0.01}, the value of a layer's `weight_filler`.
// `fallback` is the kind if the table names none. Throws option_error.
filler_spec filler_from(const options& table, const std::string& fallback);

// Backs `t` and fills it with the initial values of `p`. `layer` and `param` are the indices of the
// layer and of its parameter.
void fill_param(device& d, const param_spec& p, std::uint64_t seed, std::uint32_t layer, std::uint32_t param, tensor& t);

}  // namespace troupe
