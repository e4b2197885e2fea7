#include "runtime/node/serving/request_form.hpp"

#include "runtime/base/wording.hpp"
#include "runtime/node/serving/form_data.hpp"

namespace troupe {

expected<request_examples> examples_of_request(const std::string& body, const std::string& type, const prepared_job& j,
                                               const body_options& o, std::int64_t most) {
  if (!is_form_data(type)) return examples_of_body(body, j, o, most);
  const auto parts = form_parts(body, type);
  if (!parts) return unexpected(parts.error());
  request_examples all;
  bool files = false;
  for (const auto& p : *parts) {
    if (!p.is_file) continue;
    files = true;
    auto one = examples_of_body(p.content, j, o, most, all.pixels);
    if (!one) return unexpected(one.error().in(in_quotes(p.file)));
    all.n += one->n;
    all.pixels += one->pixels;
    if (all.n > most) return unexpected(error("a request has at most " + std::to_string(most) + " examples, this one has more"));
    if (all.values.empty())
      all.values = std::move(one->values);
    else
      all.values.insert(all.values.end(), one->values.begin(), one->values.end());
  }
  if (!files) return unexpected(error("the form has no file; send one as in: curl -F file=@picture.jpg"));
  return all;
}

}  // namespace troupe
