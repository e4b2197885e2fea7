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
  if (how & 32) f.label = "-1";
  f.missing = (how & 64) != 0;
  if ((how & 160) == 160) f.class_names = {"x", "y"};
  const auto first = parse_csv_first_line(r.rest(), f.separator);
  if (const auto* line = first ? &*first : nullptr)
    must(!line->fields.empty() && line->bytes <= r.rest().size() && line->lines > 0, "the first line is beyond the file");
  must(complete_csv_records(r.rest(), f.separator) <= r.rest().size(), "the records are longer than the file");
  const auto read = parse_csv(r.rest(), f);
  if (!read) return must(!read.error().text.empty(), "refused without a reason");
  const auto& t = *read;
  must(t.values.size() == t.rows() * t.names.size() && t.values.size() <= f.max_values,
       "the table is not rectangular or too large");
  must(t.classes.size() == (t.class_names.empty() ? 0 : t.rows()), "a row has no class");
  for (const auto c : t.classes)
    must(c >= (f.missing ? -1 : 0) && c < static_cast<std::int32_t>(t.class_names.size()), "a class has no name");
}

std::vector<std::string> sound_csv() {
  return {
      "\x04"
      "a,b,name\n1,2.5,x\n-3e4, \"6\" ,7\r\n",
      std::string(1, '\0') + "1,2\n\n3,4\n",
      "\x0d"
      "a;b;name;d\n1;2;x;4\n",
      "\x02"
      "1\t2\n",
      "\x64"
      "a,kind\n1,\"x, \"\"z\"\"\"\n,y\r\n\"3\",\n",
      "\xe0"
      "1,x\n?,y\n"};
}

const entry csv_entry({"csv", read_csv, sound_csv});

}  // namespace
}  // namespace troupe::fuzz
