#include "tests/valid_events.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <nlohmann/json.hpp>

#include "runtime/node/events/event_json.hpp"

namespace troupe::valid_events {

using event_json = nlohmann::ordered_json;

namespace {

bool has_type(const event_json& value, const std::string& type) {
  if (type == "null") return value.is_null();
  if (type == "string") return value.is_string();
  if (type == "integer") return value.is_number_integer();
  if (type == "object") return value.is_object();
  return type == "number" && value.is_number();
}

}  // namespace

std::string schema_violation(const event_json& schema, const event_json& value) {
  if (schema.is_boolean()) return schema.get<bool>() ? "" : "is not allowed";
  for (const auto& [key, what] : schema.items()) {
    if (key == "$schema" || key == "title" || key == "description" || key == "additionalProperties") continue;
    if (key == "anyOf") {
      std::string all;
      bool fits = false;
      for (const auto& one : what) {
        const auto why = schema_violation(one, value);
        fits = fits || why.empty();
        all += "\n" + one.value("title", "") + ": " + why;
      }
      if (!fits) return "fits no alternative" + all;
    } else if (key == "type") {
      bool fits = false;
      for (const auto& type : what.is_array() ? what : event_json::array({what})) fits = fits || has_type(value, type);
      if (!fits) return "is not of type " + what.dump();
    } else if (key == "const") {
      if (value != what) return "is not " + what.dump();
    } else if (key == "enum") {
      if (std::find(what.begin(), what.end(), value) == what.end()) return "is not one of " + what.dump();
    } else if (key == "minimum") {
      if (value < what) return "is too small";
    } else if (key == "required") {
      for (const auto& name : what)
        if (!value.contains(name)) return "lacks " + name.dump();
    } else if (key == "properties") {
      for (const auto& [name, member] : value.items()) {
        const auto at = what.find(name);
        const auto& rule = at != what.end() ? *at : schema.value("additionalProperties", event_json(true));
        if (const auto why = schema_violation(rule, member); !why.empty()) return name + " " + why;
      }
    } else {
      return "the schema has an unknown keyword " + key;
    }
  }
  if (!schema.contains("properties") && schema.contains("additionalProperties"))
    for (const auto& [name, member] : value.items())
      if (const auto why = schema_violation(schema["additionalProperties"], member); !why.empty()) return name + " " + why;
  return {};
}

namespace {

void check(const event_effect& e) {
  static std::atomic<unsigned> steps = 0;
  if (e.is<step_event>() && ++steps > 200) return;
  static const auto schema = event_schema();
  for (const auto form : {event_form::command, event_form::session, event_form::file}) {
    const auto line = event_line(e, form);
    EXPECT_EQ(schema_violation(schema, event_json::parse(line)), "") << line;
  }
  const auto flat = flatten(e);
  const auto back = event_of(flat);
  const auto* again = back ? &*back : nullptr;
  ASSERT_TRUE(again) << back.error().text;
  EXPECT_EQ(event_line(*again, event_form::file), event_line(e, event_form::file));
  EXPECT_EQ(flatten(*again).texts, flat.texts);
}

[[maybe_unused]] const bool checks = (check_event = check) != nullptr;

}  // namespace
}  // namespace troupe::valid_events
