// The table of header fields (docs/wire.md) is that of the code, and a field that a message does
// not use is found.
#include <gmock/gmock.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "runtime/messages/header_fields.hpp"

namespace troupe {
namespace {

using ::testing::IsEmpty;

template <std::size_t... I>
std::vector<message> empty_messages(std::index_sequence<I...>) {
  return {message{std::in_place_index<I>}...};
}
std::vector<message> empty_messages() { return empty_messages(std::make_index_sequence<std::variant_size_v<message>>{}); }

// The names of the messages that use a field.
std::set<std::string> users_of(std::uint16_t field) {
  std::set<std::string> names;
  for (const auto& m : empty_messages())
    if (header_fields_of(m) & field) names.insert(name_of(m));
  return names;
}

// The words in backticks of a text.
std::vector<std::string> words_in_backticks(const std::string& text) {
  std::vector<std::string> words;
  std::stringstream parts(text);
  std::string part;
  for (bool inside = false; std::getline(parts, part, '`'); inside = !inside)
    if (inside) words.push_back(part);
  return words;
}

TEST(header_fields, the_documented_table_lists_the_messages_that_use_each_field) {
  std::ifstream in(std::string(TROUPE_SOURCE_DIR) + "/docs/wire.md");
  std::map<std::string, std::set<std::string>> documented;
  bool inside = false;
  for (std::string line; std::getline(in, line);) {
    inside = line.starts_with("| field | type | meaning | in messages |") || (inside && line.starts_with("| `")) ||
             (inside && line.starts_with("|---"));
    if (!inside || !line.starts_with("| `")) continue;
    auto& names = documented[words_in_backticks(line).front()];
    const auto users = line.substr(line.rfind(" | "));
    for (const auto& w : words_in_backticks(users)) names.insert(w);
    if (users.find("messages about a packet") != std::string::npos) names.merge(users_of(header_field::id));
  }
  std::map<std::string, std::set<std::string>> want;
  for (const auto& [field, name] : header_field::all) want[name] = users_of(field);
  EXPECT_EQ(documented, want);
}

TEST(header_fields, stray_fields_are_named) {
  envelope e;
  e.body = push{};
  EXPECT_THAT(stray_header_fields(e), IsEmpty());
  e.h.job = 1, e.h.src = role_id{2}, e.h.dst = role_id{3}, e.h.incarnation = 4, e.h.attempt = 5, e.h.trace = 6;
  EXPECT_THAT(stray_header_fields(e), IsEmpty()) << "fields of every message";
  e.h.step = 7, e.h.mode_epoch = 8;
  EXPECT_THAT(stray_header_fields(e), IsEmpty());
  e.h.id = msg_id{9}, e.h.packets = 2, e.h.flags = flag_void;
  EXPECT_EQ(stray_header_fields(e), "id, packets, flags");
  e.body = forward{};
  EXPECT_EQ(stray_header_fields(e), "mode_epoch");
}

}  // namespace
}  // namespace troupe
