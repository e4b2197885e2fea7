// Typed access to the fields of a message (prototxt.hpp). A reader notes which fields were asked
// for; when it is destroyed, the others are reported: unknown to caffe.proto, or not supported by
// Troupe. Fields of relatives of Caffe that say how a net is computed, and not what, are notes.
// Mistakes are collected with their positions.
// Threads: one reader, one thread.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <set>
#include <string>
#include <vector>

#include "runtime/base/diagnostic.hpp"
#include "runtime/node/models/caffe/prototxt.hpp"

namespace troupe::caffe {

// The mistakes and remarks of one import or export.
struct findings {
  std::string file;                // of the net that is read
  diagnostics wrong;               // at most max_mistakes_shown
  std::vector<std::string> notes;  // one sentence each
  void error(const proto_field& at, const std::string& what);
  void note(const std::string& what);  // once

 private:
  std::set<std::string> noted_;  // the same as `notes`: a net may have many thousands
};

class message_reader {
 public:
  // `type`: of schema.hpp. `subject` begins each message: "layer 'conv1' (Convolution): ".
  // `place`: where a message that is not there would be.
  message_reader(const proto_field& from, std::string type, std::string subject, findings& found,
                 const proto_field* place = nullptr);
  message_reader(const message_reader&) = delete;
  message_reader& operator=(const message_reader&) = delete;
  ~message_reader();

  bool has(const std::string& name) const;
  // The field; null: there is none. Several are a mistake.
  const proto_field* one(const std::string& name);
  std::vector<const proto_field*> all(const std::string& name);
  void ignore(std::initializer_list<const char*> names);
  // The fields that nobody asked for are a note, not mistakes. But a field that looks like a known
  // one is misspelt, which is a mistake. `why`: a half sentence.
  void leave_rest(const std::string& why);

  std::int64_t integer(const std::string& name, std::int64_t otherwise, std::int64_t least = 0, std::int64_t most = 1'000'000'000);
  double real(const std::string& name, double otherwise);
  bool flag(const std::string& name, bool otherwise);
  std::string text(const std::string& name, const std::string& otherwise = {});
  // Of an enum; a number is translated. `known`: the words that are supported.
  std::string word(const std::string& name, const std::string& otherwise, const std::vector<std::string>& known);
  std::vector<std::int64_t> integers(const std::string& name, std::int64_t least = 0, std::int64_t most = 1'000'000'000);
  std::vector<double> reals(const std::string& name);
  std::vector<std::string> texts(const std::string& name);
  // A reader of the field's message; without the field, of an empty one at this position.
  message_reader message(const std::string& name);

  // A mistake at the field of this name, or at the message if it has none.
  void error(const std::string& name, const std::string& what);
  // A mistake unless the field is absent or has this value.
  void only(const std::string& name, std::int64_t value);
  const proto_field& at() const { return place_; }
  findings& found() { return found_; }

 private:
  bool is(const proto_field& f, proto_field::kind what, const char* called);
  bool read(const proto_field& f, std::int64_t& to, std::int64_t least, std::int64_t most);
  bool read(const proto_field& f, double& to);

  const proto_field &from_, &place_;
  std::string type_, subject_;
  findings& found_;
  std::set<std::string> asked_;
};

}  // namespace troupe::caffe
