#include "runtime/plain/generate.hpp"

#include <algorithm>
#include <cmath>

#include "ops/converted.hpp"
#include "ops/device.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/data/random.hpp"
#include "runtime/job/job_data.hpp"

namespace troupe {
namespace {

// The maximum length of a UTF-8 character in bytes.
constexpr std::size_t longest_symbol = 4;

// The job's softmax_loss of scores and labels; null: there is none.
const graph_layer* loss_of(const model_graph& g) {
  const auto labelled = [](const graph_layer& l) {
    return l.type == "softmax_loss" && l.inputs.size() == 2 && l.inputs[1] == tensor_ref{from_data, 1} && l.inputs[0].layer >= 0;
  };
  const auto at = std::find_if(g.layers.begin(), g.layers.end(), labelled);
  return at == g.layers.end() ? nullptr : &*at;
}

bool recurrent(const model_graph& g) {
  return std::any_of(g.layers.begin(), g.layers.end(), [](const graph_layer& l) { return !l.maths->carries(l.in).empty(); });
}

// The job with one example, of one character if the net is recurrent.
job_spec one_by_one(const prepared_job& j) {
  auto s = j.spec;
  s.data.batch = s.pipeline.packets = 1;
  if (!recurrent(j.graph)) return s;
  s.data.values.values["sequence"] = std::int64_t{1};
  s.train.algorithm = "bptt";
  return s;
}

}  // namespace

text_generator::text_generator(model_graph graph, std::shared_ptr<const job_spec> spec, std::vector<std::string> symbols,
                               std::vector<tensors> params, tensor_ref scores, std::shared_ptr<device> d)
    : spec_(std::move(spec)),
      graph_(std::move(graph)),
      symbols_(std::move(symbols)),
      params_(std::move(params)),
      carried_(graph_.layers.size()),
      plans_(graph_.layers.size()),
      scores_(scores),
      dev_(std::move(d)) {}
text_generator::~text_generator() = default;

expected<std::vector<std::int32_t>> text_generator::encode(const std::string& text) const {
  std::vector<std::int32_t> ids;
  for (std::size_t at = 0; at < text.size();) {
    auto found = symbols_.end();
    for (std::size_t n = 1; n <= longest_symbol && found == symbols_.end(); ++n)
      found = std::find(symbols_.begin(), symbols_.end(), text.substr(at, n));
    if (found == symbols_.end())
      return unexpected(
          error("the vocabulary has no " + in_quotes(text.substr(at, 1)) + " (byte " + std::to_string(at) + " of the text)"));
    ids.push_back(static_cast<std::int32_t>(found - symbols_.begin()));
    at += found->size();
  }
  return ids;
}

void text_generator::read(std::int32_t id) {
  tensor data = tensor::allocate(*dev_, graph_.data, dtype::i32);
  const auto steps = static_cast<std::size_t>(data.count());
  if (recent_.size() == steps) recent_.erase(recent_.begin());
  recent_.push_back(id);
  auto ids = recent_;
  ids.resize(steps, -1);  // padding
  dev_->upload(ids.data(), data);
  std::vector<tensors> out(graph_.layers.size());
  const auto type = spec_->type() == dtype::bf16 ? dtype::bf16 : dtype::f32;
  for (const auto& l : graph_.layers) {
    if (!l.in_test || l.maths->is_loss() || l.maths->is_metric()) continue;
    tensors in, after;
    for (const auto& r : l.inputs) in.push_back(r.layer == from_data ? data : out[static_cast<std::size_t>(r.layer)][r.output]);
    for (const auto& s : l.out) out[l.index].push_back(tensor::declare(s, type));
    if (!plans_[l.index]) plans_[l.index] = l.maths->prepare(*dev_, l.in, phase::test, type);
    context c{*dev_, phase::test, spec_->seed, l.index, at_};
    auto& before = carried_[l.index];
    c.carried_in = before.empty() ? nullptr : &before;
    c.carried_out = l.carries.empty() ? nullptr : &after;
    saved kept;
    l.maths->forward(c, *plans_[l.index], in, params_[l.index], out[l.index], kept);
    before = std::move(after);
  }
  ++at_;
  const tensor scores = converted_to(*dev_, out[static_cast<std::size_t>(scores_.layer)][scores_.output], dtype::f32);
  std::vector<float> values(static_cast<std::size_t>(scores.count()));
  dev_->download(scores, values.data());
  const auto classes = values.size() / steps;
  const auto row = values.begin() + static_cast<std::ptrdiff_t>((recent_.size() - 1) * classes);
  last_.assign(row, row + static_cast<std::ptrdiff_t>(classes));
  last_.resize(std::min(last_.size(), symbols_.size()));  // scores beyond the vocabulary have no meaning
}

std::vector<double> text_generator::next(double temperature) const {
  std::vector<double> p(last_.size(), 0.0);
  const auto top = std::max_element(last_.begin(), last_.end());
  if (temperature <= 0) {
    p[static_cast<std::size_t>(top - last_.begin())] = 1;
    return p;
  }
  double sum = 0;
  for (std::size_t i = 0; i < p.size(); ++i) sum += p[i] = std::exp((last_[i] - *top) / temperature);
  for (auto& x : p) x /= sum;
  return p;
}

expected<std::unique_ptr<text_generator>, diagnostic> make_generator(const prepared_job& j,
                                                                     const std::vector<std::pair<std::string, tensor>>& weights,
                                                                     std::shared_ptr<device> d) {
  if (j.data->symbols().empty())
    return unexpected(
        diagnostic{j.spec.data.at, "source '" + j.spec.data.source + "' is not text: a job generates only from a text source"});
  const auto spec = std::make_shared<job_spec>(one_by_one(j));
  std::shared_ptr<const source> data;
  try {
    data = j.all->sources.find(spec->data.source)->open(spec->data.values, spec->seed);
  } catch (const option_error& e) {
    return unexpected(diagnostic{spec->data.at, e.what()});
  }
  auto built = build_graph(*spec, j.all->layers, example_facts_of(*data, data->example()));
  if (!built) return unexpected(built.error().front());
  auto& g = *built;
  const auto* loss = loss_of(g);
  if (!loss) return unexpected(diagnostic{spec->at, "the job has no softmax_loss of scores and 'label', which generation needs"});
  std::vector<tensors> params(g.layers.size());
  for (const auto& p : g.params) {
    const auto at = std::find_if(weights.begin(), weights.end(), [&](const auto& n) { return n.first == p.full_name; });
    if (at->second.dims() != p.spec.dims)
      return unexpected(diagnostic{spec->at, "parameter '" + p.full_name + "' is " + at->second.dims().to_string() +
                                                 ", and for one character " + p.spec.dims.to_string() +
                                                 ": a recurrent net generates text only if its parameters do not depend "
                                                 "on the length of the sequence"});
    auto mine = tensor::allocate(*d, p.spec.dims, dtype::f32);
    d->copy(at->second, mine);
    params[p.layer].push_back(std::move(mine));
  }
  const auto scores = loss->inputs[0];
  return std::make_unique<text_generator>(std::move(g), spec, data->symbols(), std::move(params), scores, std::move(d));
}

generated generate(text_generator& g, const std::vector<std::int32_t>& prompt, std::int64_t length, double temperature,
                   std::uint64_t seed) {
  counter_rng rng(seed);
  generated out;
  for (auto id : prompt) g.read(id);
  for (std::int64_t i = 0; i < length; ++i) {
    const auto p = g.next(temperature);
    double left = static_cast<double>(rng.next() >> 11) * 0x1p-53;
    std::size_t k = 0;
    while (k + 1 < p.size() && left >= p[k]) left -= p[k++];
    while (k > 0 && p[k] == 0) --k;  // a rounding remainder selects the last symbol with probability > 0
    out.text += g.symbols()[k];
    out.nats -= std::log(p[k]) / static_cast<double>(length);
    g.read(static_cast<std::int32_t>(k));
  }
  return out;
}

}  // namespace troupe
