// The csv source: numbers, labels, every mistake with its line, and random bytes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "runtime/data/csv_file.hpp"
#include "runtime/data/random.hpp"
#include "runtime/data/source.hpp"
#include "tests/runtime/record/record_temp_dir.hpp"

namespace troupe {
namespace {

using test::temp_dir;
using namespace std::string_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using keys = std::map<std::string, option_value, std::less<>>;
using texts = std::vector<std::string>;
using reals = std::vector<double>;

std::span<const std::uint8_t> bytes_of(const std::string& s) { return {reinterpret_cast<const std::uint8_t*>(s.data()), s.size()}; }

csv_table table_of(const std::string& s, const csv_format& f = {}) {
  auto r = parse_csv(bytes_of(s), f);
  if (!r) {
    ADD_FAILURE() << r.error().line << ": " << r.error().text;
    return {};
  }
  return *std::move(r);
}

std::string error_in(const std::string& s, const csv_format& f = {}) {
  const auto r = parse_csv(bytes_of(s), f);
  return r ? "no error" : std::to_string(r.error().line) + ": " + r.error().text;
}

struct file {
  explicit file(const std::string& text, const std::string& test = {}) {
    put("train.csv", text);
    if (!test.empty()) put("test.csv", test);
  }
  void put(const std::string& name, const std::string& text) const {
    test::write_bytes(dir.file(name), {text.begin(), text.end()});
  }
  std::shared_ptr<const source> open(keys more = {}) const {
    source_registry r;
    add_stock_sources(r);
    const auto* t = r.find("csv");
    more["path"] = dir.file("train.csv");
    return t->open(check_options(options{std::move(more)}, t->specs), 1);
  }
  std::string error(keys more = {}) const {
    try {
      open(std::move(more));
    } catch (const option_error& e) {
      const std::string what = e.what();
      const auto at = what.find(dir.path);
      return e.key + ": " + (at == std::string::npos ? what : what.substr(0, at) + what.substr(at + dir.path.size() + 1));
    }
    return "no error";
  }
  std::string second() const { return dir.file("test.csv"); }
  temp_dir dir;
};

struct batch {
  std::vector<double> data;
  std::vector<std::int32_t> label;
};
batch read_csv(const source& s, split part, const std::vector<std::int64_t>& which) {
  const auto n = static_cast<std::int64_t>(which.size());
  batch b{std::vector<double>(which.size() * static_cast<std::size_t>(s.example().count()), 99),
          std::vector<std::int32_t>(which.size(), 99)};
  shape dims{n};
  for (int i = 0; i < s.example().rank(); ++i) dims.push_back(s.example()[i]);
  auto data = tensor::borrow(b.data.data(), dims, dtype::f64);
  auto label = tensor::borrow(b.label.data(), shape{n}, dtype::i32);
  s.read(part, which, data, label);
  return b;
}

TEST(data_csv, labels_that_do_not_count_are_no_classes) {
  const file f("x,class\n1,0\n2,-1\n3,1\n4,9\n5,-100\n");
  const auto s = f.open({{"label", std::string("class")}, {"ignore_label", std::int64_t{9}}});
  EXPECT_EQ(s->classes(), 2);
  EXPECT_THAT(read_csv(*s, split::train, {0, 1, 2, 3, 4}).label, ElementsAre(0, -1, 1, -1, -1));
}

TEST(data_csv, reads_numbers_in_all_notations) {
  const auto t = table_of(
      "\xef\xbb\xbf"
      "a, \"b b\" ,c\r\n\r\n1,-2.5e1,+3\n  \" 4 \" , .5,6\r\n\n7,8,9");
  EXPECT_THAT(t.names, ElementsAre("a", "b b", "c"));
  EXPECT_THAT(t.values, ElementsAre(1, -25, 3, 4, 0.5, 6, 7, 8, 9));
  EXPECT_THAT(t.lines, ElementsAre(3, 4, 6));
  EXPECT_THAT(table_of("1\t2\n3\t4\n", {.separator = '\t', .header = false}).values, ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(table_of("1 2\n3 4", {.separator = ' ', .header = false}).values, ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(table_of("id;x\nfoo bar;1\n\"a;b\";2\n", {.separator = ';', .ignore = {"id"}}).values, ElementsAre(1, 2));
  EXPECT_THAT(table_of("u,1,x\n", {.header = false, .ignore = {"2", "0"}}).values, ElementsAre(1));
}

TEST(data_csv, numbers_of_fields_are_finite_and_need_no_locale) {
  EXPECT_EQ(csv_number("+1.5e2"), 150);
  for (const char* none : {"1e999", "inf", "nan", "1,5", "x", ""}) EXPECT_EQ(csv_number(none), std::nullopt) << none;
}

TEST(data_csv, reports_every_mistake_with_its_line) {
  EXPECT_EQ(error_in(""), "0: no rows");
  EXPECT_EQ(error_in("a,b\n\n"), "0: only a header line, no rows");
  EXPECT_EQ(error_in("a,b\n1,2\n3\n"), "3: 1 fields, but the first line has 2");
  EXPECT_EQ(error_in("a,b\n1,2\n\n3,4,5\n"), "4: more fields than the 2 of the first line");
  EXPECT_EQ(error_in("a,b\n1,x y\n"), "2: column 'b': text instead of a number");
  EXPECT_EQ(error_in("a,b\n1,\n"), "2: column 'b': an empty field instead of a number");
  EXPECT_EQ(error_in("a,b\n1,2 3\n"), "2: column 'b': text instead of a number");
  EXPECT_EQ(error_in("a\n1e999\n"), "2: column 'a': not a finite number");
  EXPECT_EQ(error_in("a\nnan\n"), "2: column 'a': not a finite number");
  EXPECT_EQ(error_in("a\n-inf\n"), "2: column 'a': not a finite number");
  EXPECT_EQ(error_in("a\n+-1\n"), "2: column 'a': text instead of a number");
  EXPECT_EQ(error_in("a,b\n\"1,2\n"), "2: a quote that is not closed");
  EXPECT_EQ(error_in("a,b\n\"1\"2,3\n"), "2: text after a closing quote");
  EXPECT_EQ(error_in("a\n1\x01\n"), "2: column 'a': text instead of a number");
  EXPECT_EQ(error_in("size,b\n1,2", {.ignore = {"sise"}}),
            "1: ignore: there is no column 'sise'; did you mean 'size'? (columns: 'size', 'b')");
  EXPECT_EQ(error_in("a,b\n1,2", {.ignore = {"a", "1"}}), "1: all columns are ignored");
  EXPECT_EQ(error_in("a,b\n1,2\n3,4\n", {.max_values = 3}), "3: more values than memory_mib allows");
  EXPECT_EQ(error_in("a,b,c,d\n1,2,3,4\n", {.max_values = 3}), "2: more values than memory_mib allows");
}

// Line and column suffice to find a mistake. Names of columns are shown, values are not.
TEST(data_csv, errors_quote_no_values_of_the_file) {
  const std::string secret = "PRIVATE";
  const csv_format formats[] = {{},
                                {.separator = ' '},
                                {.label = "a"},
                                {.separator = ' ', .label = "a"},
                                {.label = "a", .class_names = {"b"}},
                                {.ignore = {"PRIVATF"}}};
  for (const auto& text : {"a\n" + secret + "\n1\n", "a b\n" + secret + " 1\n2 x\n", "a\n\"1\"" + secret + "\n",
                           "a,b\n1," + secret + "\n", "a\n1\n" + secret + "\n", "a\n\"" + secret + "\n"})
    for (const auto& f : formats) {
      const auto e = error_in(text, f);
      EXPECT_NE(e, "");
      EXPECT_EQ(e.find(secret), std::string::npos) << e;
    }
}

TEST(data_csv, quoted_fields_hold_separators_quotes_and_line_breaks) {
  const auto t =
      table_of("x,\"a \"\"note\"\"\",y\r\n1,\"p, \"\"q\"\"\r\nand r\n\n\",2\r\n\"3\" , z,\"4\"\r\n", {.ignore = {"a \"note\""}});
  EXPECT_THAT(t.names, ElementsAre("x", "y"));
  EXPECT_THAT(t.values, ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(t.lines, ElementsAre(2, 6));
  EXPECT_THAT(table_of("\"u\nv\",w\n1,2\n").names, ElementsAre("u\nv", "w"));
  EXPECT_EQ(error_in("note,x\n\"1\n2\",3\n4,five\n", {.ignore = {"note"}}), "4: column 'x': text instead of a number")
      << "the line of the file, not the record";
  EXPECT_EQ(error_in("note,x\n\"1\n2\",three\n", {.ignore = {"note"}}), "3: column 'x': text instead of a number");
  EXPECT_EQ(error_in("x\n1\n\"2\n3\n"), "3: a quote that is not closed");
  EXPECT_THAT(table_of("\"1\n2\",3\n4,5\n", {.header = false, .ignore = {"0"}}).lines, ElementsAre(1u, 3u))
      << "the beginning of each row";
}

TEST(data_csv, complete_records_end_outside_of_quotes) {
  const auto complete = [](const std::string& s) { return complete_csv_records(bytes_of(s), ','); };
  EXPECT_EQ(complete("1,2\n3,"), 4u);
  EXPECT_EQ(complete("1,\"2\n3\"\n4"), 8u);
  EXPECT_EQ(complete("1,\"2\n3"), 0u);
  EXPECT_EQ(complete("\xef\xbb\xbf\"a\nb\"\n"), 9u);
  EXPECT_EQ(complete("\n\n"), 2u);
  EXPECT_EQ(complete("1\n\"x\"y\n2\n"), 7u) << "the reader of the record finds the mistake";
}

TEST(data_csv, names_of_classes_are_numbered_in_their_order) {
  const file f("x,kind\n1,setosa\n2,\"iris, blue\"\n3,setosa\n4,virginica\n", "x,kind\n5,virginica\n");
  const auto s = f.open({{"label", "kind"s}, {"test_path", f.second()}});
  EXPECT_EQ(s->classes(), 3);
  EXPECT_THAT(s->class_names(), ElementsAre("iris, blue", "setosa", "virginica"));
  EXPECT_THAT(read_csv(*s, split::train, {0, 1, 2, 3}).label, ElementsAre(1, 0, 1, 2));
  EXPECT_THAT(read_csv(*s, split::test, {0}).label, ElementsAre(2)) << "as in the training file";
  const auto given = f.open({{"label", "kind"s}, {"class_names", texts{"virginica", "setosa", "iris, blue", "other"}}});
  EXPECT_EQ(given->classes(), 4);
  EXPECT_THAT(read_csv(*given, split::train, {0, 1, 3}).label, ElementsAre(1, 2, 0));
  EXPECT_EQ(f.error({{"label", "kind"s}, {"class_names", texts{"setosa"}}}),
            "path: train.csv:3: column 'kind': a class that is not one of the 1 in class_names, or in the training file");
  EXPECT_EQ(f.error({{"label", "kind"s}, {"classes", std::int64_t{5}}}),
            "classes: classes = 5, but the labels have 3 names; class_names may list more of them");
  EXPECT_THAT(f.error({{"label", "kind"s}, {"class_names", texts{"a", "a"}}}), HasSubstr("class_names has 'a' twice"));
  f.put("test.csv", "x,kind\n5,tulip\n");
  EXPECT_THAT(f.error({{"label", "kind"s}, {"test_path", f.second()}}),
              HasSubstr("test.csv:2: column 'kind': a class that is not"));
  f.put("train.csv", "x,kind\n1,0\n2,one\n");
  EXPECT_THAT(f.error({{"label", "kind"s}}), HasSubstr("train.csv:3: column 'kind': a text among class numbers"));
  f.put("train.csv", "x,kind\n1,one\n2,2\n");
  EXPECT_THAT(f.error({{"label", "kind"s}}), HasSubstr("train.csv:3: column 'kind': a number among names of classes"));
}

TEST(data_csv, missing_fields_are_dropped_or_filled_on_request) {
  const file f("a,b,c\n1,,0\n3,4,1\nNA,8,1\n5,?,\n");
  const keys labelled{{"label", "c"s}};
  const auto with = [&](option_value how) {
    auto k = labelled;
    k["missing"] = std::move(how);
    return k;
  };
  EXPECT_EQ(
      f.error(labelled),
      "path: train.csv:2: column 'b': an empty field instead of a number; missing = \"drop\", \"mean\" or a number accepts it");
  const auto dropped = f.open(with("drop"s));
  EXPECT_EQ(dropped->size(split::train), 1);
  EXPECT_THAT(read_csv(*dropped, split::train, {0}).data, ElementsAre(3, 4));
  EXPECT_THAT(f.error(with("mean"s)), HasSubstr("train.csv:5: the label is missing; missing = \"drop\""));
  f.put("train.csv", "a,b,c\n1,,0\n3,4,1\nNA,8,1\n");
  const auto mean = f.open(with("mean"s));
  EXPECT_THAT(read_csv(*mean, split::train, {0, 2}).data, ElementsAre(1, 6, 2, 8));
  EXPECT_THAT(mean->table()->fill, ElementsAre(2, 6));
  auto scaled = with(-1.0);
  scaled["scale"] = reals{10};
  EXPECT_THAT(read_csv(*f.open(scaled), split::train, {0}).data, ElementsAre(10, -10)) << "filled before scaling";
  EXPECT_THAT(f.error(with("median"s)), HasSubstr("must be one of error, drop, mean"));
  f.put("train.csv", "a,b,c\n1,,0\n");
  EXPECT_THAT(f.error(with("mean"s)), HasSubstr("column 'b' has no number in the training rows"));
  EXPECT_THAT(f.error(with("drop"s)), HasSubstr("leaves none"));
  f.put("train.csv", "a,b\n1,2\n3,\n");
  EXPECT_THAT(f.error({{"targets", texts{"b"}}, {"missing", 0.0}}), HasSubstr("train.csv:3: column 'b': a target is missing"));
}

TEST(data_csv, words_for_missing_labels_are_classes_only_when_class_names_lists_them) {
  const file f("x,kind\n1,NA\n2,red\n3,None\n4,blue\n5,nan\n");
  EXPECT_THAT(f.error({{"label", "kind"s}}), HasSubstr("train.csv:2: column 'kind': a label is missing (class_names may list"));
  const auto dropped = f.open({{"label", "kind"s}, {"missing", "drop"s}});
  EXPECT_THAT(dropped->class_names(), ElementsAre("blue", "red"));
  EXPECT_THAT(read_csv(*dropped, split::train, {0, 1}).data, ElementsAre(2, 4));
  const auto given = f.open({{"label", "kind"s}, {"missing", "drop"s}, {"class_names", texts{"None", "red", "blue"}}});
  EXPECT_THAT(read_csv(*given, split::train, {0, 1, 2}).label, ElementsAre(1, 0, 2));
  f.put("train.csv", "x,class\n1,0\n2,NA\n3,1\n");
  const auto numbers = f.open({{"label", "class"s}, {"missing", "drop"s}});
  EXPECT_THAT(read_csv(*numbers, split::train, {0, 1}).label, ElementsAre(0, 1));
}

TEST(data_csv, names_of_columns_that_are_not_utf8_are_refused_unless_ignored) {
  const file f(
      "x,gr\xf6\xdf"
      "e,y\n1,2,0\n3,4,1\n");
  EXPECT_EQ(f.error({{"label", "y"s}}),
            "path: train.csv: the name of column 2 of those that are read is not UTF-8; save the "
            "file as UTF-8, or ignore the column");
  EXPECT_EQ(f.open({{"label", "y"s}, {"ignore", texts{"1"}}})->size(split::train), 2);
  f.put("train.csv",
        "x,gr\xc3\xb6\xc3\x9f"
        "e,y\n1,2,0\n3,4,1\n");
  EXPECT_EQ(f.open({{"label", "y"s}})->size(split::train), 2);
}

// The mean of the training rows, so that nothing of the test rows enters the training.
TEST(data_csv, means_are_those_of_the_training_rows) {
  const file f("x,y\n1,1\n3,\n", "x,y\n,100\n");
  const auto s = f.open({{"missing", "mean"s}, {"test_path", f.second()}});
  EXPECT_THAT(read_csv(*s, split::test, {0}).data, ElementsAre(2, 100));
  EXPECT_THAT(read_csv(*s, split::train, {1}).data, ElementsAre(3, 1));
}

TEST(data_csv, columns_become_examples_and_labels) {
  const file f("x,class,y\n1,0,2\n3,2,4\n5,1,6\n", "x,class,y\n7,2,8\n");
  const auto s = f.open({{"label", std::string("class")}, {"test_path", f.second()}, {"scale", reals{2, 0.5}}, {"mean", reals{1}}});
  EXPECT_EQ(s->example(), shape{2});
  EXPECT_EQ(s->classes(), 3);
  EXPECT_EQ(s->size(split::train), 3);
  EXPECT_EQ(s->size(split::test), 1);
  const auto b = read_csv(*s, split::train, {2, 0, -1});
  EXPECT_THAT(b.data, ElementsAre(9, 2, 1, 0, 0, 0));
  EXPECT_THAT(b.label, ElementsAre(1, 0, -1));
  EXPECT_THAT(read_csv(*s, split::test, {0}).data, ElementsAre(13, 3));
  for (const char* column : {"1", "-2"})
    EXPECT_THAT(read_csv(*f.open({{"label", std::string(column)}}), split::train, {1}).label, ElementsAre(2));
  const auto bare = f.open();
  EXPECT_EQ(bare->classes(), 0);
  EXPECT_EQ(bare->example(), shape{3});
  EXPECT_EQ(bare->size(split::test), 0);
  EXPECT_EQ(f.open({{"label", std::string("class")}, {"shape", std::vector<std::int64_t>{1, 2, 1}}})->example(), (shape{1, 2, 1}));
}

TEST(data_csv, test_fraction_splits_the_rows) {
  std::string text = "v,c\n";
  for (int i = 0; i < 100; ++i) text += std::to_string(i) + "," + std::to_string(i % 7) + "\n";
  const file f(text);
  const auto s = f.open({{"label", std::string("c")}, {"test_fraction", 0.3}});
  ASSERT_EQ(s->size(split::train), 70);
  ASSERT_EQ(s->size(split::test), 30);
  std::set<double> seen;
  for (auto part : {split::train, split::test})
    for (std::int64_t i = 0; i < s->size(part); ++i) {
      const auto b = read_csv(*s, part, {i});
      EXPECT_EQ(b.label[0], static_cast<int>(b.data[0]) % 7);
      seen.insert(b.data[0]);
    }
  EXPECT_EQ(seen.size(), 100u);
}

TEST(data_csv, errors_name_the_option_the_file_and_the_line) {
  const file f("x,class\n1,0\n2,1\n", "x,klass\n1,0\n");
  const std::string path = "train.csv";
  EXPECT_EQ(f.error({{"label", std::string("clas")}}),
            "label: train.csv:1: there is no column 'clas'; did you mean 'class'? (columns: 'x', 'class')");
  EXPECT_EQ(f.error({{"label", std::string("-3")}}), "label: train.csv:1: there is no column '-3' (columns: 'x', 'class')");
  EXPECT_EQ(f.error({{"test_path", f.second()}}), "test_path: test.csv: its 2 columns differ from the 2 of " + f.dir.file(path));
  EXPECT_THAT(f.error({{"test_path", f.dir.file("none.csv")}}), HasSubstr("test_path: none.csv: cannot open: No such file"));
  EXPECT_EQ(f.error({{"test_path", f.second()}, {"test_fraction", 0.5}}),
            "test_fraction: test_fraction and test_path exclude each other");
  EXPECT_THAT(f.error({{"separator", std::string(",,")}}), HasSubstr("separator: option 'separator' must be one character"));
  EXPECT_THAT(f.error({{"separator", std::string("1")}}), HasSubstr("separator: "));
  EXPECT_THAT(f.error({{"scale", reals{1, 2, 3}}}), HasSubstr("scale: scale has 3 numbers, but an example has 2 columns"));
  EXPECT_THAT(f.error({{"shape", std::vector<std::int64_t>{3}}}),
              HasSubstr("shape: train.csv: 2 columns do not form an example of shape 3"));
  EXPECT_EQ(f.error({{"classes", std::int64_t{1}}, {"label", std::string("class")}}),
            "path: train.csv: a label is not below classes = 1");
  f.put(path, "x,class\n1,0\n2,0.5\n");
  EXPECT_EQ(f.error({{"label", std::string("class")}}), "path: train.csv:3: the label is not a class number (0, 1, 2, ...)");
  f.put(path, "x,class\n1,-1\n2,1\n");
  EXPECT_THAT(f.error({{"label", std::string("class")}}),
              HasSubstr("label: train.csv: negative labels do not count, and no label is 0: number the classes from 0"));
  f.put(path, "class\n1\n");
  EXPECT_EQ(f.error({{"label", std::string("class")}}), "label: train.csv: the label is the only column");
  f.put(path, "x,class\n1,zero\n");
  EXPECT_EQ(f.error(), "path: train.csv:2: column 'class': text instead of a number");
}

// Mutations of a valid file give a complete and finite table, or an error with a line of the file.
TEST(data_csv, fuzz) {
  const std::string sound = "id,\"x\",y,class\r\na,1.5,-2e3, 0\nb,\" 3 \",4,1\n\nc,+5,.6,2\n";
  const auto pieces = "0123456789.,-+eE\"\n\r\t ;ainf\xff\x00\xef\xbb\xbf"s;
  counter_rng rng(5);
  const auto inputs = test::fuzz_inputs(100'000);
  std::uint64_t tables = 0;
  for (std::uint64_t k = 0; k < inputs; ++k) {
    auto s = sound;
    for (auto changes = 1 + rng.draw_below(6); changes > 0; --changes) {
      const auto at = rng.draw_below(s.size() + 1);
      const char c = pieces[rng.draw_below(pieces.size())];
      switch (rng.draw_below(4)) {
        case 0: s.insert(at, 1, c); break;
        case 1: s.erase(at, rng.draw_below(4)); break;
        case 2: s.insert(at, s.substr(rng.draw_below(s.size() + 1), rng.draw_below(20))); break;
        default:
          if (at < s.size()) s[at] = c;
      }
    }
    csv_format f;
    f.header = k % 3 != 0;
    if (k % 2 == 0) f.ignore = {"0"};
    f.separator = k % 7 == 0 ? ';' : ',';
    f.max_values = k % 5 == 0 ? 6 : 1000;
    const auto r = parse_csv(bytes_of(s), f);
    if (const auto* t = r ? &*r : nullptr) {
      ++tables;
      ASSERT_GT(t->rows(), 0u);
      ASSERT_EQ(t->values.size(), t->rows() * t->names.size()) << s;
      ASSERT_LE(t->values.size(), f.max_values);
      for (double v : t->values) ASSERT_TRUE(std::isfinite(v));
    } else {
      const auto& e = r.error();
      ASSERT_FALSE(e.text.empty());
      ASSERT_LE(e.line, 1 + static_cast<std::uint64_t>(std::count(s.begin(), s.end(), '\n')));
    }
  }
  EXPECT_GT(tables, inputs / 100) << "too few mutations are valid csv";
  EXPECT_LT(tables, inputs);
}

TEST(data_csv, targets_are_columns_of_values) {
  const file f("a,price,b,size\n1,0.5,2,-7\n3,1e3,4,8\n5,2,6,9\n", "a,price,b,size\n1,4,2,5\n");
  const auto s = f.open({{"targets", texts{"size", "1"}}, {"scale", reals{10}}, {"test_path", f.second()}});
  EXPECT_TRUE(s->targets());
  EXPECT_EQ(s->classes(), 0);
  EXPECT_EQ(s->label(), shape{2});
  EXPECT_EQ(s->example(), shape{2});
  const auto read = [&](split part, const std::vector<std::int64_t>& which) {
    std::vector<double> x(which.size() * 2), y(which.size() * 2, 99);
    auto data = tensor::borrow(x.data(), shape{static_cast<std::int64_t>(which.size()), 2}, dtype::f64);
    auto label = tensor::borrow(y.data(), shape{static_cast<std::int64_t>(which.size()), 2}, dtype::f64);
    s->read(part, which, data, label);
    x.insert(x.end(), y.begin(), y.end());
    return x;
  };
  EXPECT_THAT(read(split::train, {1, -1}), ElementsAre(30, 40, 0, 0, 8, 1000, 0, 0));
  EXPECT_THAT(read(split::test, {0}), ElementsAre(10, 20, 5, 4));
  std::vector<float> x(2), y(2);
  auto data = tensor::borrow(x.data(), shape{1, 2}, dtype::f32), label = tensor::borrow(y.data(), shape{1, 2}, dtype::f32);
  s->read(split::train, {0}, data, label);
  EXPECT_THAT(y, ElementsAre(-7, 0.5F));

  const auto some = f.open({{"targets", texts{"price"}}, {"test_fraction", 0.34}});
  EXPECT_EQ(some->size(split::train), 2);
  EXPECT_EQ(some->label(), shape{1});
  EXPECT_EQ(f.error({{"targets", texts{"cost"}}}),
            "targets: train.csv: there is no column 'cost' (columns: 'a', 'price', 'b', 'size')");
  EXPECT_EQ(f.error({{"targets", texts{"price", "1"}}}), "targets: train.csv: targets names column '1' twice");
  EXPECT_EQ(f.error({{"targets", texts{"price"}}, {"label", "a"s}}),
            "targets: label (classes) and targets (values) exclude each other");
  EXPECT_EQ(f.error({{"targets", texts{"0", "1", "2", "3"}}}), "targets: train.csv: the targets are the only columns");
}

}  // namespace
}  // namespace troupe
