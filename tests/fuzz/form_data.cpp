// Fuzz target: forms in the body of POST /predict. The first line is the Content-Type.
#include "runtime/node/serving/form_data.hpp"

#include <algorithm>

#include "tests/fuzz/target.hpp"

namespace troupe::fuzz {
namespace {

bool within(std::string_view part, std::string_view whole) {
  return part.empty() || (part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size());
}

void read_form(input in) {
  const auto all = text(in);
  const auto line = std::min(all.find('\n'), all.size());
  const std::string_view type(all.data(), line), body = std::string_view(all).substr(std::min(line + 1, all.size()));
  (void)is_form_data(type);
  const auto parts = form_parts(body, type);
  if (!parts) return must(!parts.error().text.empty(), "refused without a reason");
  must(parts->size() <= most_form_parts, "more parts than allowed");
  std::size_t bytes = 0;
  for (const auto& p : *parts) {
    must(within(p.name, body) && within(p.file, body) && within(p.content, body), "a part is not in the body");
    bytes += p.content.size();
  }
  must(bytes <= body.size(), "the parts are longer than the body");
}

std::vector<std::string> sound_form() {
  const std::string
      type = "multipart/form-data; boundary=",
      file = "Content-Disposition: form-data; name=\"file\"; filename=\"a;\\\"b.jpg\"\r\nContent-Type: image/jpeg\r\n\r\n";
  return {type + "x1\n--x1\r\n" + file + "\xff\xd8\r\n--x\r\n--x1--\r\n",
          type + "\"y z\"\npreamble\r\n--y z\r\n\r\nno header\r\n--y z  \r\n" + file + "\r\n--y z--", type + "b\n--b--\r\n"};
}

const entry form_entry({"form_data", read_form, sound_form});

}  // namespace
}  // namespace troupe::fuzz
