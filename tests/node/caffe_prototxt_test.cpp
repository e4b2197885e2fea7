// The text format of Protocol Buffers: values, lists, positions, and every mistake with its place.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "runtime/node/models/caffe/prototxt.hpp"
#include "runtime/node/models/caffe/schema.hpp"
#include "tests/error_text.hpp"

namespace troupe::caffe {
namespace {

using kind = proto_field::kind;

proto_field parsed(const std::string& text) {
  auto r = parse_prototxt(text, "net.prototxt");
  EXPECT_EQ(test::error_text(r), "");
  return r ? *std::move(r) : proto_field();
}
std::string why(const std::string& text) { return test::error_text(parse_prototxt(text, "net.prototxt")); }

// "name=value name={...}", for comparisons.
std::string outline(const proto_field& m) {
  std::string s;
  for (const auto& f : m.fields) {
    s += (s.empty() ? "" : " ") + f.name + "=";
    s += f.what == kind::message ? "{" + outline(f) + "}" : f.what == kind::text ? "'" + f.text + "'" : f.text;
  }
  return s;
}

TEST(caffe_prototxt, has_words_numbers_strings_and_messages) {
  EXPECT_EQ(outline(parsed("name: \"LeNet\"  # a comment: { }\ntype: MAX a { b: 1 c { d: true } }")),
            "name='LeNet' type=MAX a={b=1 c={d=true}}");
  EXPECT_EQ(outline(parsed("a: { b: 1 } c < d: 2 > e {}")), "a={b=1} c={d=2} e={}") << "':' before '{' is optional";
  EXPECT_EQ(outline(parsed("a: 1, b: 2; c: 3")), "a=1 b=2 c=3");
  EXPECT_EQ(outline(parsed("")), "");
  EXPECT_EQ(outline(parsed("\t\r\n# only a comment")), "");
}

TEST(caffe_prototxt, has_numbers_of_all_forms) {
  EXPECT_EQ(outline(parsed("a: -1 b: 0x1F c: 1e-3 d: .5 e: 2. f: 1.5f g: - 3 h: +4 i: -inf j: inf")),
            "a=-1 b=0x1F c=1e-3 d=.5 e=2. f=1.5 g=-3 h=+4 i=-inf j=inf");
}

TEST(caffe_prototxt, joins_strings_and_reads_escapes) {
  EXPECT_EQ(outline(parsed("a: \"x\" 'y'\n\"z\"")), "a='xyz'");
  EXPECT_EQ(parsed(R"(a: "\n\t\\\"\'\101\x42\x4a\0")").fields[0].text, std::string("\n\t\\\"'ABJ\0", 9));
  EXPECT_EQ(parsed("a: 'say \"so\"'").fields[0].text, "say \"so\"");
}

TEST(caffe_prototxt, has_a_field_for_each_element_of_a_list) {
  EXPECT_EQ(outline(parsed("a: [1, 2, 3] b [{c: 1}, {c: 2}] d: []")), "a=1 a=2 a=3 b={c=1} b={c=2}");
}

TEST(caffe_prototxt, knows_line_and_column_of_each_name) {
  const auto m = parsed("a: 1\n  layer {\n    bb: 2 }");
  EXPECT_EQ(m.fields[0].line, 1);
  EXPECT_EQ(m.fields[1].line, 2);
  EXPECT_EQ(m.fields[1].column, 3);
  EXPECT_EQ(m.fields[1].fields[0].line, 3);
  EXPECT_EQ(m.fields[1].fields[0].column, 5);
}

TEST(caffe_prototxt, names_the_place_of_a_mistake) {
  EXPECT_EQ(why("a 1"), "net.prototxt:1:3: expected ':' or '{' after 'a', not '1'");
  EXPECT_EQ(why("a:\n  }"), "net.prototxt:2:3: expected a value of 'a', not '}'");
  EXPECT_EQ(why("layer {\n  a: 1\n"), "net.prototxt:3:1: the message 'layer' of line 1 is not closed: expected '}'");
  EXPECT_EQ(why("layer < a: 1 }"), "net.prototxt:1:14: expected the name of a field, not '}'");
  EXPECT_EQ(why("a: \"x\n\""), "net.prototxt:1:4: the string does not end on its line");
  EXPECT_EQ(why("a: \"x"), "net.prototxt:1:4: the string does not end on its line");
  EXPECT_EQ(why("a: \"x\\"), "net.prototxt:1:4: the string does not end on its line");
  EXPECT_EQ(why("a: \"b\\q\""), "net.prototxt:1:6: unknown escape '\\q' in a string");
  EXPECT_EQ(why("a: \"\\777\""), "net.prototxt:1:5: the escape is beyond a byte");
  EXPECT_EQ(why("a: 1.2.3"), "net.prototxt:1:4: '1.2.3' is no number");
  EXPECT_EQ(why("a: 0xzz"), "net.prototxt:1:4: '0xzz' is no number");
  EXPECT_EQ(why("a: 1e"), "net.prototxt:1:4: '1e' is no number");
  EXPECT_EQ(why("a: -"), "net.prototxt:1:4: '-' is no number");
  EXPECT_EQ(why("a: -x"), "net.prototxt:1:4: '-x' is no number");
  EXPECT_EQ(why("a: [1 2]"), "net.prototxt:1:7: expected ',' or ']' in the list of 'a', not '2'");
  EXPECT_EQ(why("a: [1"), "net.prototxt:1:6: expected ',' or ']' in the list of 'a', not the end of the file");
  EXPECT_EQ(why("[caffe.x]: 1"), "net.prototxt:1:1: extensions ([name]) are not supported");
  EXPECT_EQ(why("7: 1"), "net.prototxt:1:1: expected the name of a field, not '7'");
  EXPECT_EQ(why(std::string("a: 1 \0", 6)), "net.prototxt:1:6: expected the name of a field, not '\\x00'");
}

TEST(caffe_prototxt, refuses_messages_nested_too_deep) {
  const auto nested = [](int depth) {
    std::string s;
    for (int i = 0; i < depth; ++i) s += "a {";
    return s + std::string(static_cast<std::size_t>(depth), '}');
  };
  EXPECT_EQ(why(nested(max_depth - 1)), "");
  EXPECT_EQ(why(nested(max_depth)), "net.prototxt:1:96: messages are nested more than 32 deep");
  EXPECT_THAT(why(nested(100000)), ::testing::HasSubstr("nested more than 32 deep"));
}

TEST(caffe_prototxt, refuses_too_many_fields) {
  std::string text = "a: [0";
  for (std::size_t i = 0; i < max_fields; ++i) text += ",1";
  EXPECT_THAT(why(text + "]"), ::testing::HasSubstr("more than 1048576 fields"));
}

TEST(caffe_prototxt, reads_its_own_text_as_the_same_tree) {
  const std::string text = "name: \"a\\\"b\\\\\\377\\n\" layer { type: \"X\" p { k: MAX n: -1.5e-07 } } layer { }";
  const auto tree = parsed(text);
  const auto printed = prototxt_of(tree);
  EXPECT_EQ(outline(parsed(printed)), outline(tree));
  EXPECT_EQ(prototxt_of(parsed(printed)), printed);
}

TEST(caffe_schema, names_a_known_type_in_every_field) {
  const auto has_words = [](const std::string& type) {
    constexpr std::int64_t most = 64;
    for (std::int64_t k = 0; k < most; ++k)
      if (enum_word(type, k)) return true;
    return false;
  };
  std::set<std::string> met{"NetParameter"};
  for (std::vector<std::string> open{"NetParameter"}; !open.empty();) {
    const auto name = open.back();
    open.pop_back();
    for (const auto& f : message_named(name)->fields) {
      EXPECT_EQ(f.name.find('='), std::string::npos) << name << ": " << f.name;
      if (f.what == field_type::kind::word) {
        EXPECT_TRUE(has_words(f.type)) << name << "." << f.name << ": " << f.type;
      }
      if (f.what != field_type::kind::message) continue;
      ASSERT_TRUE(message_named(f.type)) << name << "." << f.name << ": " << f.type;
      if (met.insert(f.type).second) open.push_back(f.type);
    }
  }
  EXPECT_TRUE(met.contains("BNParameter") && met.contains("InterpParameter"));
}

}  // namespace
}  // namespace troupe::caffe
