// Checks of options that several sources have.
// Errors: option_error.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ops/option_specs.hpp"
#include "ops/options.hpp"
#include "ops/tensor.hpp"
#include "runtime/data/channel_order.hpp"

namespace troupe {

// Refuses a NUL byte in the path `text` of option `key`. Call it before a message names the path:
// what() ends at a NUL.
void check_path_text(const std::string& key, const std::string& text);

// The shape of option `shape` for an example of `count` numbers; nullopt if the option is empty.
// `subject` begins the message if they do not fit, "x.csv: 12 columns do not".
std::optional<shape> given_shape(const options& o, std::int64_t count, const std::string& subject);

// Option `channel_order`, "rgb" or "bgr", for sources whose examples may be colour pictures.
// `usual`: its default. `what`: what the source does with it.
option_spec channel_order_option(channel_order usual, const std::string& what);
channel_order channel_order_of(const options& o);

}  // namespace troupe
