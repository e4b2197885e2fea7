// served: a data server reads the examples and sends them to the workers' loaders on demand; one
// request is credit for one packet. The order is that of another sampler, and so are the weights,
// bit for bit. Loaders read no examples, neither in training nor in evaluation
// (loader/data_server.hpp).
#include "runtime/data/stock.hpp"

namespace troupe {
namespace {

option_specs served_specs() {
  option_spec order;
  order.name = "order";
  order.kind = option_kind::text;
  order.fallback = std::string("shuffle");
  order.doc = "the sampler whose order is served, with its own defaults";
  order.choices = {"shuffle", "sequential", "shard", "own_order"};
  return {order};
}

sampler_type type_of(const std::string& order) {
  if (order == "sequential") return sequential_sampler_type();
  if (order == "shard") return shard_sampler_type();
  if (order == "own_order") return own_order_sampler_type();
  return shuffle_sampler_type();
}

}  // namespace

sampler_type served_sampler_type() {
  return {
      "served",
      "A data server, on a node with the role \"data\", reads the examples and sends them to the workers on demand, in the order "
      "of another sampler.",
      served_specs(),
      [](const options& o, const sampler_config& c) {
        const auto type = type_of(o.text("order"));
        return type.make(check_options({}, type.specs), c);
      },
      delivery::server};
}

}  // namespace troupe
