// The messages of caffe.proto that Troupe reads or writes: names, numbers and types of their
// fields. The same table serves the text form (is the field known?) and the binary form (which
// field is it?).
// Threads: built on first use, then constant.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::caffe {

struct field_type {
  enum class kind { integer, real, flag, text, word, message, blob };
  std::string name;
  std::uint32_t number = 0;
  kind what = kind::integer;
  std::string type;  // of a message or enum: its name
  bool packed = false;
};

struct message_type {
  std::vector<field_type> fields;
  const field_type* find(std::string_view name) const;
  const field_type* find(std::uint32_t number) const;
};

// Null: no such message.
const message_type* message_named(std::string_view name);

// The name of an enum's value; null: it has none of this number. And the inverse; -1: none.
const std::string* enum_word(std::string_view type, std::int64_t number);
std::int64_t enum_number(std::string_view type, std::string_view word);

}  // namespace troupe::caffe
