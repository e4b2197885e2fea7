#include "runtime/node/config/job_document.hpp"

#include <algorithm>
#include <utility>

#include "runtime/node/config/include.hpp"
#include "runtime/node/config/resolved_job.hpp"
#include "runtime/spec/mistakes.hpp"

namespace troupe {
namespace {

// "conv1" of "layer.conv1.outputs=10"; empty: the override is of no single layer.
std::string layer_of_override(const std::string& text) {
  const std::string list = "layer.";
  const auto from = text.find_first_not_of(' ');
  const auto end = std::min(text.find('='), text.size());
  if (from == std::string::npos || text.compare(from, list.size(), list) != 0) return {};
  const auto name = from + list.size(), dot = text.find('.', name);
  return dot < end ? text.substr(name, dot - name) : std::string();
}

bool has_layer(const document_table& root, const std::string& name) {
  const auto* e = find_entry(root, "layer");
  const auto* list = e ? e->value.array() : nullptr;
  return list && std::any_of(list->begin(), list->end(), [&](const document_value& v) {
           const auto* n = v.table() ? find_entry(*v.table(), "name") : nullptr;
           const auto* s = n ? std::get_if<std::string>(&n->value.value) : nullptr;
           return s && *s == name;
         });
}

}  // namespace

expected<job_document, diagnostics> read_job_document(const std::string& text, const std::string& file,
                                                      const std::vector<std::string>& overrides) {
  auto parsed = parse_document(text, file);
  if (!parsed) return unexpected(std::move(parsed).error());
  job_document d{*std::move(parsed), {}, written_with_every_key(text)};
  diagnostics errors;
  diagnostic too_many;
  too_many.at.file = file;
  too_many.message = std::to_string(overrides.size()) + " overrides; the maximum is " + std::to_string(max_overrides);
  if (overrides.size() > max_overrides) errors.push_back(std::move(too_many));
  const auto fail = [&] { return unexpected(shown_mistakes(std::move(errors))); };
  if (errors.empty()) merge_included(d.root, file, errors);
  if (!errors.empty()) return fail();
  std::vector<std::string> later;
  for (const auto& o : overrides) {
    const auto layer = layer_of_override(o);
    if (find_entry(d.root, "block") && !layer.empty() && !has_layer(d.root, layer))
      later.push_back(o);
    else
      apply_override(d.root, o, errors);
  }
  if (errors.empty() && find_entry(d.root, "include"))
    errors.push_back({find_entry(d.root, "include")->at, "'include' is read before overrides: write it into the file"});
  if (!errors.empty()) return fail();
  d.origins = write_out_blocks(d.root, file, errors);
  if (!errors.empty()) return fail();
  for (const auto& o : later) apply_override(d.root, o, errors);
  if (!errors.empty()) return fail();
  return d;
}

}  // namespace troupe
