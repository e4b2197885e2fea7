#include "runtime/node/events/event_json.hpp"

#include <concepts>
#include <nlohmann/json.hpp>

namespace troupe {
namespace {

using json = nlohmann::ordered_json;

struct json_writer {
  json& o;
  event_form form;

  void operator()(const char* name, double v, const char*) { o[name] = v; }
  void operator()(const char* name, std::same_as<bool> auto v, const char*) { o[name] = v ? 1 : 0; }
  void operator()(const char* name, std::same_as<std::uint64_t> auto v, const char*) { o[name] = v; }
  template <class T>
  void operator()(const char* name, const std::optional<T>& v, const char*) {
    if (v) o[name] = *v;
  }
  void operator()(const char* name, const std::string& text, const char*) {
    if (!text.empty()) o[name] = text;
  }
  void operator()(const char* name, const std::vector<std::string>& list, const char*) {
    if (!list.empty()) o[name] = list.back();
  }
  void positive(const char* name, std::uint64_t n, const char*) {
    if (n > 0) o[name] = n;
  }
  void numbers(const auto& member, const char*) {
    for (const auto& [name, v] : numbers_of(member)) o[name] = v;
  }
  void numbers(const std::vector<staleness_entry>& entries, const char*) {
    if (form == event_form::file) {
      for (const auto& [name, v] : numbers_of(entries)) o[name] = v;
      return;
    }
    auto& parameters = o["parameters"] = json::object();
    for (const auto& e : entries) {
      auto& reads = parameters[e.parameter] = json::object();
      for (const auto& [clocks, times] : e.reads) reads[std::to_string(clocks)] = times;
    }
  }
  void message(const std::string& text, const char*) {
    if (!text.empty()) o["message"] = text;
  }
  void message(const mode_choice& m, const char* about) {
    if (form == event_form::file) return message(m.text(), about);
    o["mode"] = m.name;
    auto& options = o["options"] = json::object();
    for (const auto& [key, value] : m.options) options[key] = value;
  }
  void message(how_ended how, const char*) {
    if (form != event_form::command) o[form == event_form::session ? "how" : "message"] = text_of(how);
  }
  void internal(const char*, const auto&) {}
};

// Makes the schema of a kind from a value of it. Fields that may be left out are not required.
struct schema_writer {
  json properties = json::object();
  json required = {"event"};
  bool any_number = false;

  void add(const char* name, json type, const char* about) {
    type["description"] = about;
    properties[name] = std::move(type);
  }
  static json number() { return {{"type", {"number", "null"}}}; }  // null: not finite
  static json count() { return {{"type", "integer"}, {"minimum", 0}}; }
  static json text() { return {{"type", "string"}}; }

  void operator()(const char* name, double, const char* about) { add(name, number(), about), required.push_back(name); }
  void operator()(const char* name, std::same_as<bool> auto, const char* about) {
    add(name, {{"enum", {0, 1}}}, about), required.push_back(name);
  }
  void operator()(const char* name, std::same_as<std::uint64_t> auto, const char* about) {
    add(name, count(), about), required.push_back(name);
  }
  void operator()(const char* name, const std::optional<double>&, const char* about) { add(name, number(), about); }
  void operator()(const char* name, const std::optional<std::uint64_t>&, const char* about) { add(name, count(), about); }
  void operator()(const char* name, const std::string&, const char* about) { add(name, text(), about); }
  void operator()(const char* name, const std::vector<std::string>&, const char* about) { add(name, text(), about); }
  void positive(const char* name, std::uint64_t, const char* about) { add(name, count(), about); }
  void numbers(const auto&, const char*) { any_number = true; }
  void numbers(const std::vector<staleness_entry>&, const char* about) {
    any_number = true;
    add("parameters", {{"type", "object"}, {"additionalProperties", {{"type", "object"}, {"additionalProperties", count()}}}},
        about);
  }
  void message(const std::string&, const char* about) { add("message", text(), about); }
  void message(const mode_choice&, const char* about) {
    add("mode", text(), "name of the mode");
    add("options", {{"type", "object"}, {"additionalProperties", text()}}, "options of the mode");
    add("message", text(), about);
  }
  void message(how_ended, const char* about) {
    for (const char* name : {"how", "message"}) add(name, text(), about);
  }
  void internal(const char*, const auto&) {}
};

template <class K>
json schema_of() {
  schema_writer w;
  w.add("event", {{"const", K::kind.name}}, K::kind.about);
  w.add("step", schema_writer::count(), "number of complete steps");
  w.add("time", schema_writer::number(), "seconds since 1970, in run folders");
  const K k;
  k.fields(k, w);
  json o{{"title", K::kind.id}, {"type", "object"}, {"required", std::move(w.required)}, {"properties", std::move(w.properties)}};
  o["additionalProperties"] = w.any_number ? schema_writer::number() : json(false);
  return o;
}

template <class... K>
json schemas_of(const std::variant<K...>*) {
  auto all = json::array();
  (all.push_back(schema_of<K>()), ...);
  return all;
}

}  // namespace

json event_object(const event_effect& e, event_form form, std::optional<double> time) {
  json o{{"event", name_of(e).name}};
  const bool last = e.is<done_event>() || e.is<error_event>();
  if (form == event_form::file || !last) o["step"] = e.step;
  if (time) o["time"] = *time;
  if (form == event_form::command && e.is<error_event>()) o["where"] = "";
  std::visit(
      [&](const auto& k) {
        json_writer w{o, form};
        k.fields(k, w);
      },
      e.what);
  return o;
}

std::string event_line(const event_effect& e, event_form form, std::optional<double> time) {
  return event_object(e, form, time).dump(-1, ' ', false, json::error_handler_t::replace);
}

json event_schema() {
  return {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
          {"title", "Events of a Troupe job"},
          {"description", "One JSON object per line: `troupe train --json`, a REPL with --json, events.jsonl of run folders."},
          {"anyOf", schemas_of(static_cast<const job_event_kind*>(nullptr))}};
}

}  // namespace troupe
