#include "runtime/node/models/caffe/fields.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/options.hpp"
#include "runtime/base/number_text.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/node/models/caffe/schema.hpp"
#include "runtime/spec/mistakes.hpp"

namespace troupe::caffe {
namespace {

// Integers of the text format: decimal, 0x hexadecimal, 0 octal.
bool read_integer(const std::string& text, std::int64_t& to) {
  const bool negative = text.starts_with('-');
  std::string digits = text.substr(negative || text.starts_with('+') ? 1 : 0);
  int base = 10;
  if (digits.starts_with("0x") || digits.starts_with("0X"))
    base = 16, digits.erase(0, 2);
  else if (digits.size() > 1 && digits[0] == '0')
    base = 8, digits.erase(0, 1);
  std::uint64_t v = 0;
  const auto r = std::from_chars(digits.data(), digits.data() + digits.size(), v, base);
  if (digits.empty() || r.ec != std::errc{} || r.ptr != digits.data() + digits.size() || v > (std::uint64_t{1} << 62)) return false;
  to = negative ? -static_cast<std::int64_t>(v) : static_cast<std::int64_t>(v);
  return true;
}

// Fields of relatives of Caffe (NVIDIA's, Intel's, of SegNet, SSD, PSPNet, ...) without a meaning
// for the values that a net computes: algorithms, precisions of kernels, threads, order of reading.
bool without_effect(const std::string& field) {
  static const std::set<std::string> names{"backward_math",
                                           "backward_type",
                                           "bn_stats_batch_size",
                                           "cache",
                                           "conv_algorithm",
                                           "cudnn_convolution_algo_seeker",
                                           "cudnn_math_override",
                                           "debug_info",
                                           "default_backward_math",
                                           "default_backward_type",
                                           "default_conv_algos_override",
                                           "default_cublas_math_override",
                                           "default_cudnn_math_override",
                                           "default_forward_math",
                                           "default_forward_type",
                                           "eltwise_mem_sharing",
                                           "engine",
                                           "force_nd_im2col",
                                           "forward_math",
                                           "forward_type",
                                           "global_grad_scale",
                                           "global_grad_scale_adaptive",
                                           "mem_param",
                                           "multinode",
                                           "need_backward",
                                           "optimize_mem",
                                           "parser_threads",
                                           "per_fla_fuse",
                                           "prefetch",
                                           "profile_info",
                                           "quantization_param",
                                           "random_seed",
                                           "reduce_buckets",
                                           "shuffle",
                                           "stats_batch_size",
                                           "store_blobs_in_old_format",
                                           "threads"};
  return names.contains(field);
}

// The known field that is misspelt here; empty: it is another one. Messages are compared without
// the ending that they share, which makes foreign ones look alike: "video_data_param",
// "image_data_param".
std::string known_field_meant(std::string_view field, const std::vector<std::string>& known) {
  for (const std::string_view ending : {"_data_param", "_param", ""}) {
    if (!field.ends_with(ending)) continue;
    std::vector<std::string> stems;
    for (const auto& k : known)
      if (k.ends_with(ending)) stems.push_back(k.substr(0, k.size() - ending.size()));
    const auto near = nearest_word(field.substr(0, field.size() - ending.size()), stems);
    return near.empty() ? near : near + std::string(ending);
  }
  return {};
}

std::string plain(const std::string& text) { return text.starts_with('+') ? text.substr(1) : text; }

}  // namespace

void findings::error(const proto_field& at, const std::string& what) {
  if (wrong.size() >= max_mistakes_shown) return;
  diagnostic d;
  d.at = {file, at.line, at.column};
  d.message = what;
  wrong.push_back(std::move(d));
}

void findings::note(const std::string& what) {
  if (noted_.insert(what).second) notes.push_back(what);
}

message_reader::message_reader(const proto_field& from, std::string type, std::string subject, findings& found,
                               const proto_field* place)
    : from_(from), place_(place ? *place : from), type_(std::move(type)), subject_(std::move(subject)), found_(found) {}

message_reader::~message_reader() {
  const auto* type = message_named(type_);
  std::vector<std::string> known;
  if (type)
    for (const auto& f : type->fields) known.push_back(f.name);
  for (const auto& f : from_.fields) {
    if (found_.wrong.size() >= max_mistakes_shown) return;  // comparing with all names is slow
    if (!asked_.insert(f.name).second) continue;
    if (without_effect(f.name)) {
      found_.note("the field " + in_quotes(f.name) +
                  " is left out wherever it is: it says how a net is computed or read, not what");
      continue;
    }
    if (type && type->find(f.name))
      found_.error(f, subject_ + "the field " + in_quotes(f.name) + " is not supported here");
    else
      found_.error(f, subject_ + "Troupe does not know the field " + in_quotes(f.name) + did_you_mean(f.name, known));
  }
}

bool message_reader::has(const std::string& name) const {
  return std::any_of(from_.fields.begin(), from_.fields.end(), [&](const proto_field& f) { return f.name == name; });
}

const proto_field* message_reader::one(const std::string& name) {
  const auto found = all(name);
  if (found.size() > 1)
    found_.error(*found[1],
                 subject_ + "the field " + in_quotes(name) + " is there twice; first on line " + std::to_string(found[0]->line));
  return found.empty() ? nullptr : found[0];
}

std::vector<const proto_field*> message_reader::all(const std::string& name) {
  asked_.insert(name);
  std::vector<const proto_field*> found;
  for (const auto& f : from_.fields)
    if (f.name == name) found.push_back(&f);
  return found;
}

void message_reader::ignore(std::initializer_list<const char*> names) { asked_.insert(names.begin(), names.end()); }

void message_reader::leave_rest(const std::string& why) {
  constexpr std::size_t longest_compared = 80;
  const auto* type = message_named(type_);
  std::vector<std::string> known(asked_.begin(), asked_.end()), left;
  if (type)
    for (const auto& f : type->fields) known.push_back(f.name);
  for (const auto& f : from_.fields) {
    if (!asked_.insert(f.name).second) continue;
    const bool foreign = !(type && type->find(f.name)) && !without_effect(f.name);
    const bool compare = foreign && f.name.size() <= longest_compared &&
                         std::max(left.size(), found_.wrong.size()) < max_mistakes_shown;  // it is slow
    if (const auto meant = compare ? known_field_meant(f.name, known) : std::string(); !meant.empty())
      found_.error(f,
                   subject_ + "Troupe does not know the field " + in_quotes(f.name) + "; did you mean " + in_quotes(meant) + "?");
    else
      left.push_back(in_quotes(f.name));
  }
  if (!left.empty()) found_.note(subject_ + joined(left) + (left.size() == 1 ? " is" : " are") + " left out: " + why);
}

bool message_reader::is(const proto_field& f, proto_field::kind what, const char* called) {
  if (f.what == what) return true;
  found_.error(f, subject_ + in_quotes(f.name) + " is " + called);
  return false;
}

bool message_reader::read(const proto_field& f, std::int64_t& to, std::int64_t least, std::int64_t most) {
  if (!is(f, proto_field::kind::number, "an integer")) return false;
  std::int64_t v = 0;
  if (read_integer(f.text, v) && v >= least && v <= most) return to = v, true;
  found_.error(f, subject_ + in_quotes(f.name) + " is an integer from " + std::to_string(least) + " to " + std::to_string(most) +
                      ", not " + in_quotes(f.text));
  return false;
}

bool message_reader::read(const proto_field& f, double& to) {
  double v = 0;
  std::int64_t whole = 0;
  if (f.what == proto_field::kind::number && read_number(plain(f.text), v) && std::isfinite(v)) return to = v, true;
  if (f.what == proto_field::kind::number && read_integer(f.text, whole)) return to = static_cast<double>(whole), true;
  found_.error(f, subject_ + in_quotes(f.name) + " is a number, not " + in_quotes(f.text));
  return false;
}

std::int64_t message_reader::integer(const std::string& name, std::int64_t otherwise, std::int64_t least, std::int64_t most) {
  std::int64_t v = otherwise;
  if (const auto* f = one(name)) read(*f, v, least, most);
  return v;
}

double message_reader::real(const std::string& name, double otherwise) {
  double v = otherwise;
  if (const auto* f = one(name)) read(*f, v);
  return v;
}

bool message_reader::flag(const std::string& name, bool otherwise) {
  const auto* f = one(name);
  if (!f) return otherwise;
  if (f->text == "true" || f->text == "t" || f->text == "True" || f->text == "1") return true;
  if (f->text == "false" || f->text == "f" || f->text == "False" || f->text == "0") return false;
  found_.error(*f, subject_ + in_quotes(name) + " is true or false, not " + in_quotes(f->text));
  return otherwise;
}

std::string message_reader::text(const std::string& name, const std::string& otherwise) {
  const auto* f = one(name);
  return f && is(*f, proto_field::kind::text, "a string in quotes") ? f->text : otherwise;
}

std::string message_reader::word(const std::string& name, const std::string& otherwise, const std::vector<std::string>& known) {
  const auto* f = one(name);
  if (!f) return otherwise;
  auto word = f->text;
  const auto* type = message_named(type_);
  const auto* field = type ? type->find(name) : nullptr;
  if (std::int64_t number = 0; field && f->what == proto_field::kind::number && read_integer(word, number))
    if (const auto* named = enum_word(field->type, number)) word = *named;
  if (std::find(known.begin(), known.end(), word) != known.end()) return word;
  found_.error(*f, subject_ + in_quotes(name) + ": " + in_quotes(word) + " is not supported; Troupe knows " + joined(known));
  return otherwise;
}

std::vector<std::int64_t> message_reader::integers(const std::string& name, std::int64_t least, std::int64_t most) {
  std::vector<std::int64_t> list;
  for (const auto* f : all(name))
    if (std::int64_t v = 0; read(*f, v, least, most)) list.push_back(v);
  return list;
}

std::vector<double> message_reader::reals(const std::string& name) {
  std::vector<double> list;
  for (const auto* f : all(name))
    if (double v = 0; read(*f, v)) list.push_back(v);
  return list;
}

std::vector<std::string> message_reader::texts(const std::string& name) {
  std::vector<std::string> list;
  for (const auto* f : all(name))
    if (is(*f, proto_field::kind::text, "a string in quotes")) list.push_back(f->text);
  return list;
}

message_reader message_reader::message(const std::string& name) {
  static const proto_field nothing;
  const auto* type = message_named(type_);
  const auto* field = type ? type->find(name) : nullptr;
  const auto* f = one(name);
  if (f && !is(*f, proto_field::kind::message, "a message in braces")) f = nullptr;
  return {f ? *f : nothing, field ? field->type : std::string(), subject_ + name + ": ", found_, f ? f : &place_};
}

void message_reader::error(const std::string& name, const std::string& what) {
  const auto i = std::find_if(from_.fields.begin(), from_.fields.end(), [&](const proto_field& f) { return f.name == name; });
  found_.error(i == from_.fields.end() ? place_ : *i, subject_ + what);
}

void message_reader::only(const std::string& name, std::int64_t value) {
  if (integer(name, value, -1'000'000'000) != value)
    error(name, in_quotes(name) + " must be " + std::to_string(value) + " for Troupe");
}

}  // namespace troupe::caffe
