// Fuzz target: CSV tables; the first byte sets the format options.
#include "runtime/data/csv_file.hpp"

#include "tests/fuzz/target.hpp"

namespace troupe::fuzz {
namespace {

void read_csv(input in) {
  reader r(in);
  const auto how = r.number(1);
  csv_format f;
  f.separator = how & 1 ? ';' : how & 2 ? '\t' : ',';
  f.header = (how & 4) != 0;
  if (how & 8) f.ignore = {"name", "2"};
  f.max_values = how & 16 ? 20 : 1 << 20;
  const auto first = parse_csv_first_line(r.rest(), f.separator);
  if (const auto* line = first ? &*first : nullptr)
    must(!line->fields.empty() && line->bytes <= r.rest().size() && line->line > 0, "the first line is beyond the file");
  const auto read = parse_csv(r.rest(), f);
  if (!read) return must(!read.error().text.empty(), "refused without a reason");
  const auto& t = *read;
  must(t.values.size() == t.rows() * t.names.size() && t.values.size() <= f.max_values,
       "the table is not rectangular or too large");
}

std::vector<std::string> sound_csv() {
  return {
      "\x04"
      "a,b,name\n1,2.5,x\n-3e4, \"6\" ,7\r\n",
      std::string(1, '\0') + "1,2\n\n3,4\n",
      "\x0d"
      "a;b;name;d\n1;2;x;4\n",
      "\x02"
      "1\t2\n"};
}

const entry csv_entry({"csv", read_csv, sound_csv});

}  // namespace
}  // namespace troupe::fuzz
