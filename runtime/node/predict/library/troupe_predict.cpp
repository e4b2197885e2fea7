#include "runtime/node/predict/troupe_predict.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "runtime/base/exception_text.hpp"
#include "runtime/node/predict/net_file.hpp"
#include "runtime/node/predict/net_runner.hpp"

struct troupe_predict_net {
  std::unique_ptr<troupe::net_runner> runner;
  troupe::channel_order order = troupe::channel_order::rgb;
  std::vector<std::string> class_names;
};

namespace {

constexpr std::int64_t most_examples = std::int64_t{1} << 31;

thread_local std::string last_error;

int fail(int code, const std::string& text) {
  last_error = text;
  return code;
}

// Calls `f`; no exception leaves the library.
template <class F>
int guarded(F f) {
  try {
    last_error.clear();
    return f();
  } catch (...) {
    return fail(TROUPE_PREDICT_FAILED, troupe::current_exception_text());
  }
}

std::string text_of(const troupe::diagnostics& list) {
  std::string text;
  for (const auto& d : list) text += (text.empty() ? "" : "\n") + d.to_string();
  return text;
}

int meaning_of(troupe::answer a) {
  switch (a) {
    case troupe::answer::softmax: return TROUPE_PREDICT_SOFTMAX;
    case troupe::answer::sigmoid: return TROUPE_PREDICT_SIGMOID;
    case troupe::answer::scores: return TROUPE_PREDICT_SCORES;
    default: return TROUPE_PREDICT_VALUES;
  }
}

int run(troupe_predict_net* net, const void* examples, std::int32_t type, std::int64_t count, float* outputs) {
  if (!net || count < 0 || count > most_examples || (count > 0 && (!examples || !outputs)))
    return fail(TROUPE_PREDICT_BAD_ARGUMENT, "net, examples or outputs is NULL, or the count is out of range");
  if (type != TROUPE_PREDICT_FLOAT32 && type != TROUPE_PREDICT_UINT8)
    return fail(TROUPE_PREDICT_BAD_ARGUMENT, "there is no type " + std::to_string(type) + " of examples");
  if (count == 0) return TROUPE_PREDICT_OK;
  const auto done = type == TROUPE_PREDICT_FLOAT32 ? net->runner->run(static_cast<const float*>(examples), count, outputs)
                                                   : net->runner->run(static_cast<const std::uint8_t*>(examples), count, outputs);
  return done ? TROUPE_PREDICT_OK : fail(TROUPE_PREDICT_FAILED, done.error().text);
}

void softmax(float* x, std::int64_t n) {
  const float most = *std::max_element(x, x + n);
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += x[i] = std::exp(x[i] - most);
  for (std::int64_t i = 0; i < n; ++i) x[i] = static_cast<float>(x[i] / sum);
}

}  // namespace

int troupe_predict_open(const char* file, const troupe_predict_options* options, troupe_predict_net** net) {
  return guarded([&] {
    if (!file || !net) return fail(TROUPE_PREDICT_BAD_ARGUMENT, "file or net is NULL");
    *net = nullptr;
    if (options && options->struct_size < sizeof *options)
      return fail(TROUPE_PREDICT_BAD_ARGUMENT, "options.struct_size is too small");
    constexpr unsigned most_threads = 1024;
    if (options && options->threads > most_threads) return fail(TROUPE_PREDICT_BAD_ARGUMENT, "options.threads is above 1024");
    const auto job = troupe::open_net_file(file);
    if (!job) return fail(TROUPE_PREDICT_BAD_FILE, text_of(job.error()));
    auto made = troupe::net_runner::make(*job, options && options->layer ? options->layer : "", options ? options->threads : 1);
    if (!made) return fail(TROUPE_PREDICT_BAD_FILE, made.error().to_string());
    *net = new troupe_predict_net{*std::move(made), (*job)->data->picture_order(), (*job)->data->class_names()};
    return static_cast<int>(TROUPE_PREDICT_OK);
  });
}

void troupe_predict_close(troupe_predict_net* net) { delete net; }

int troupe_predict_describe(const troupe_predict_net* net, troupe_predict_info* info) {
  return guarded([&] {
    if (!net || !info || info->struct_size < sizeof *info)
      return fail(TROUPE_PREDICT_BAD_ARGUMENT, "net or info is NULL, or info.struct_size is too small");
    const auto example = net->runner->example();
    info->rank = example.rank();
    for (int i = 0; i < troupe::shape::max_rank; ++i) info->extents[i] = i < example.rank() ? example[i] : 1;
    info->example_values = example.count();
    info->positions = net->runner->positions();
    info->width = net->runner->width();
    info->classes = net->runner->classes();
    info->meaning = meaning_of(net->runner->meaning());
    return static_cast<int>(TROUPE_PREDICT_OK);
  });
}

int troupe_predict_channel_order(const troupe_predict_net* net) {
  return net && net->order == troupe::channel_order::bgr ? TROUPE_PREDICT_BGR : TROUPE_PREDICT_RGB;
}

const char* troupe_predict_class_name(const troupe_predict_net* net, std::int64_t class_number) {
  if (!net || class_number < 0 || class_number >= static_cast<std::int64_t>(net->class_names.size())) return nullptr;
  return net->class_names[static_cast<std::size_t>(class_number)].c_str();
}

int troupe_predict_run(troupe_predict_net* net, const void* examples, std::int32_t type, std::int64_t count, float* outputs) {
  return guarded([&] { return run(net, examples, type, count, outputs); });
}

int troupe_predict_probabilities(troupe_predict_net* net, const void* examples, std::int32_t type, std::int64_t count,
                                 float* outputs) {
  return guarded([&] {
    const auto meaning = net ? net->runner->meaning() : troupe::answer::values;
    if (net && meaning != troupe::answer::softmax && meaning != troupe::answer::sigmoid)
      return fail(TROUPE_PREDICT_BAD_ARGUMENT, "the outputs of this net have no probabilities");
    if (const int code = run(net, examples, type, count, outputs); code != TROUPE_PREDICT_OK) return code;
    const auto rows = count * net->runner->positions(), width = net->runner->width();
    if (meaning == troupe::answer::softmax)
      for (std::int64_t r = 0; r < rows; ++r) softmax(outputs + r * width, width);
    else
      for (std::int64_t i = 0; i < rows * width; ++i) outputs[i] = 1 / (1 + std::exp(-outputs[i]));
    return static_cast<int>(TROUPE_PREDICT_OK);
  });
}

const char* troupe_predict_error_text(void) { return last_error.c_str(); }
