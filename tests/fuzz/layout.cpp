// Fuzz target: the layout of TOML files (troupe fmt). A formatted file has the same content.
#include "runtime/node/config/toml_layout.hpp"
#include "runtime/node/node_tables.hpp"
#include "tests/fuzz/target.hpp"
#include "tests/node/job_fixture.hpp"

namespace troupe::fuzz {
namespace {

void lay_out(input in) {
  static const auto order = order_of_job_keys(node_tables());
  const auto all = text(in);
  const auto r = laid_out(all, "fuzz.toml", order);
  if (!r) return must(!r.error().empty(), "refused without a reason");
  must(same_content(*parse_document(all, "a"), *parse_document(*r, "b")), "the content differs");
}

std::vector<std::string> sound_layouts() {
  return {job_test::text_of(job_test::sound_lines()),
          "# a\n[ a . 'b' ]  # c\nx = [ 1, # d\n {y=1,z = \"\"\"s\n\"\"\"},\n]\n\n[[l]]\nk.m=1979-05-27 07:32:00\n"};
}

const entry layout_entry({"layout", lay_out, sound_layouts});

}  // namespace
}  // namespace troupe::fuzz
