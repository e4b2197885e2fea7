#include "runtime/data/source_options.hpp"

#include <vector>

namespace troupe {

void check_path_text(const std::string& key, const std::string& text) {
  if (text.find('\0') != std::string::npos) throw option_error(key, "option '" + key + "' holds a NUL byte");
}

std::optional<shape> given_shape(const options& o, std::int64_t count, const std::string& subject) {
  const auto& extents = o.get<std::vector<std::int64_t>>("shape");
  if (extents.empty()) return std::nullopt;
  if (extents.size() > shape::max_rank - 1)
    throw option_error("shape",
                       "shape has " + std::to_string(extents.size()) + " extents: at most " + std::to_string(shape::max_rank - 1));
  shape s;
  for (const auto e : extents) {
    count = count % e == 0 ? count / e : 0;
    s.push_back(e);
  }
  if (count != 1) throw option_error("shape", subject + " form an example of shape " + s.to_string());
  return s;
}

option_spec channel_order_option(channel_order usual, const std::string& what) {
  const auto other = usual == channel_order::rgb ? channel_order::bgr : channel_order::rgb;
  return choice_option("channel_order", {name_of(usual), name_of(other)}, what);
}

channel_order channel_order_of(const options& o) {
  return o.text("channel_order") == name_of(channel_order::bgr) ? channel_order::bgr : channel_order::rgb;
}

}  // namespace troupe
