#include "runtime/node/config/average_keys.hpp"

namespace troupe {

const keys<average_spec>& average_keys() {
  constexpr double int64_max = 9223372036854775807.0;
  static const keys<average_spec> k(
      "[train.average]", "",
      {word_key<average_spec>("kind", {"ema", "swa"},
                              "ema: exponential moving average of the weights; swa: their mean (docs/dynamics.md)",
                              &average_spec::kind)
           .required(),
       real_key<average_spec>("decay", 0, 1, "ema: the part of the average that stays at each update; less than 1",
                              &average_spec::decay),
       flag_key<average_spec>("bias_correction", "ema: the first updates count more, so that the average forgets how it began",
                              &average_spec::bias_correction),
       whole_key<average_spec>("start", 0, int64_max, "number of updates before the first that counts", &average_spec::start),
       real_key<average_spec>("start_fraction", 0, 1, "the same as a fraction of the job's steps", &average_spec::start_fraction)
           .otherwise("`start`"),
       whole_key<average_spec>("every", 1, int64_max, "number of updates from one that counts to the next", &average_spec::every),
       word_key<average_spec>("evaluate", {"average", "weights", "both"}, "what evaluations use", &average_spec::evaluate),
       word_key<average_spec>("write", {"average", "weights"}, "what the final weights are", &average_spec::write)});
  return k;
}

void read_average(table_reader& r, average_spec& into) {
  into.at = r.at();
  if (!r.take("kind")) r.error("", "it needs a kind: \"ema\" or \"swa\"");
  average_keys().read_all(r, into);
  if (into.decay == 1) r.error("decay", "'decay' must be less than 1: with 1 the average would never change");
  if (into.kind == "swa")
    for (const char* key : {"decay", "bias_correction"})
      if (r.take(key)) r.error(key, "'" + std::string(key) + "' has no effect with kind = \"swa\", whose updates count equally");
  if (r.take("start") && r.take("start_fraction")) r.error("start_fraction", "set start or start_fraction, not both");
  r.finish();
}

}  // namespace troupe
