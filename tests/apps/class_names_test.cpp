// Names of classes: every source that knows them, however it is stored, gives them to every command
// that prints a class.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include <png.h>

#include "runtime/record/checkpoint.hpp"
#include "tests/apps/child.hpp"

namespace troupe {
namespace {

using namespace testing_apps;
using testing::HasSubstr;
using class_list = std::vector<std::string>;

// A source with names, and a net for it. Its test inputs are a file for `troupe predict`.
struct named_source {
  std::string name, data, layers, input;
  class_list classes;
};

// How the commands reach the source.
struct kept_how {
  std::string name;
  bool packed = false;
  double validation = 0;
};

const kept_how ways_to_keep[] = {{"as it is", false, 0},
                                 {"with a validation split", false, 0.3},
                                 {"packed", true, 0},
                                 {"packed, with a validation split", true, 0.3}};

class names_of_classes : public command_test {
 protected:
  static std::string layer(const std::string& text) { return "[[layer]]\n" + text + "\n"; }
  static std::string scores(const std::string& type, const std::string& options) {
    return layer("name = \"score\"\ntype = \"" + type + "\"\ninputs = [\"data\"]\n" + options) +
           layer("name = \"loss\"\ntype = \"softmax_loss\"\ninputs = [\"score\", \"label\"]");
  }
  void write_png(const std::string& name, std::uint8_t grey) const {
    std::filesystem::create_directories(std::filesystem::path(path(name)).parent_path());
    png_image image{};
    image.version = PNG_IMAGE_VERSION;
    image.width = image.height = 4, image.format = PNG_FORMAT_GRAY;
    const std::vector<std::uint8_t> p(16, grey);
    ASSERT_TRUE(png_image_write_to_file(&image, path(name).c_str(), 0, p.data(), 0, nullptr));
  }

  named_source table() const {
    const class_list classes{"iris, blue", "red \"one\"", "snow"};
    std::string rows = "x,y\n", labelled = "x,y,kind\n";
    for (int k = 0; k < 60; ++k) {
      const auto row = std::to_string(k % 7) + "," + std::to_string(k % 11);
      rows += row + "\n";
      const class_list quoted{"\"iris, blue\"", "\"red \"\"one\"\"\"", "snow"};
      labelled += row + "," + quoted[static_cast<std::size_t>(k * k % 7 % 3)] + "\n";
    }
    write("train.csv", labelled);
    return {"csv", "source = \"csv\"\npath = \"train.csv\"\nlabel = \"kind\"\ntest_fraction = 0.3\n",
            scores("linear", "outputs = 3"), write("rows.csv", rows), classes};
  }
  named_source pictures() const {
    for (const std::string part : {"train", "test"})
      for (int i = 0; i < 12; ++i) {
        write_png("set/" + part + "/a, dark/" + std::to_string(i) + ".png", static_cast<std::uint8_t>(20 + i));
        write_png("set/" + part + "/bright/" + std::to_string(i) + ".png", static_cast<std::uint8_t>(220 + i));
      }
    return {"images",
            "source = \"images\"\npath = \"set\"\nchannels = 1\n",
            scores("linear", "outputs = 2"),
            path("set/test"),
            {"a, dark", "bright"}};
  }
  named_source characters() const {
    std::string text;
    for (int k = 0; k < 400; ++k) text += class_list{"a", "b", "\xc3\xa9"}[static_cast<std::size_t>(k * k % 7 % 3)];
    write("t.txt", text);
    auto header = std::string("{'descr': '<i4', 'fortran_order': False, 'shape': (1, 4), }");
    header += std::string(117 - header.size(), ' ') + "\n";
    std::string numbers(16, '\0');
    for (std::size_t k = 0; k < 4; ++k) numbers[4 * k] = static_cast<char>(k % 3);
    const auto input = write("ids.npy", std::string("\x93NUMPY\x01\x00\x76\x00", 10) + header + numbers);
    return {"text",
            "source = \"text\"\npath = \"t.txt\"\nsequence = 4\ntest_fraction = 0.3\n",
            scores("embedding", "vocabulary = 3\noutputs = 3"),
            input,
            {"a", "b", "\xc3\xa9"}};
  }

  std::string job(const std::string& name, const std::string& data, const named_source& s) const {
    return write(name, "[job]\nname = \"named\"\n[data]\n" + data + "batch = 4\n" + s.layers +
                           "[train]\ndynamics = { rule = \"sgd\", lr = 0.1 }\nfinish = { steps = 2 }\n");
  }
  // The job file of a source that is stored like this.
  std::string stored(const named_source& s, const kept_how& how) const {
    auto data = s.data;
    if (how.packed) {
      const auto o = troupe({"pack", job("source.toml", s.data, s), "--out", "data.pack"});
      EXPECT_EQ(o.code, 0) << o.out << o.err;
      data = "source = \"packed\"\npath = \"data.pack\"\n";
    }
    if (how.validation > 0) data += "validation = " + std::to_string(how.validation) + "\n";
    return job("job.toml", data, s);
  }
  std::vector<nlohmann::json> predicted(std::vector<std::string> words) const {
    words.insert(words.begin(), {"predict"});
    words.emplace_back("--json");
    const auto o = troupe(words);
    EXPECT_EQ(o.code, 0) << o.out << o.err;
    return of_kind(objects(o.out), "prediction");
  }
};

void expect_names(const std::vector<nlohmann::json>& rows, const class_list& classes, bool labelled) {
  ASSERT_FALSE(rows.empty());
  for (const auto& r : rows) {
    const auto c = r.at("class").get<std::size_t>();
    EXPECT_EQ(r.value("name", "no name"), classes.at(c));
    EXPECT_EQ(r.contains("label"), labelled);
    if (!labelled) continue;
    EXPECT_EQ(r.value("label_name", "no name"), classes.at(r.at("label").get<std::size_t>()));
  }
}

TEST_F(names_of_classes, every_command_has_them_however_the_data_is_stored) {
  for (const auto& s : {table(), pictures(), characters()})
    for (const auto& how : ways_to_keep) {
      SCOPED_TRACE(s.name + ", " + how.name);
      const auto file = stored(s, how);
      const auto data = troupe({"data", file, "--json"});
      ASSERT_EQ(data.code, 0) << data.out << data.err;
      EXPECT_EQ(objects(data.out).back().at("class_names"), nlohmann::json(s.classes));
      EXPECT_THAT(troupe({"data", file}).out, HasSubstr("'" + s.classes[0] + "'"));

      std::filesystem::remove_all(path("runs"));
      const auto trained = troupe({"train", file, "--run-dir", "runs", "--out", "net.safetensors"});
      ASSERT_EQ(trained.code, 0) << trained.out << trained.err;
      expect_names(predicted({file, "--weights", "net.safetensors", "--test"}), s.classes, true);
      expect_names(predicted({"1", "--run-dir", "runs", "--test"}), s.classes, true);
      expect_names(predicted({file, "--weights", "net.safetensors", s.input}), s.classes, false);

      const auto exported = troupe({"export", file, "--weights", "net.safetensors", "--out", "net.troupe"});
      ASSERT_EQ(exported.code, 0) << exported.out << exported.err;
      expect_names(predicted({"net.troupe", s.input}), s.classes, false);
      for (const auto& r : predicted({"net.troupe", s.input, "--top", "2"}))
        for (const auto& one : r.at("top")) EXPECT_EQ(one.value("name", ""), s.classes.at(one.at("class").get<std::size_t>()));
    }
}

// A label is a number with a name beside it, as the class is; also where the output has no classes.
TEST_F(names_of_classes, labels_of_test_data_have_number_and_name) {
  const auto s = table();
  const auto file = stored(s, ways_to_keep[0]);
  ASSERT_EQ(troupe({"train", file, "--out", "net.safetensors"}).code, 0);
  const auto o = troupe({"predict", file, "--weights", "net.safetensors", "--test", "--top", "2"});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.out, testing::StartsWith("input,index,class,name,probability,label,label_name,top2_class,top2_name,"));
  EXPECT_THAT(o.out, testing::ContainsRegex(",1,\"red \"\"one\"\"\",[0-9]+,"));
  const auto bare = troupe({"predict", file, "--weights", "net.safetensors", "--test", "--layer", "score"});
  ASSERT_EQ(bare.code, 0) << bare.err;
  EXPECT_THAT(bare.out, testing::StartsWith("input,index,label,label_name,output"));
}

TEST_F(names_of_classes, a_packed_set_continues_a_run_only_if_it_has_the_same_order) {
  const auto s = table();
  const auto first = stored(s, ways_to_keep[0]);
  ASSERT_EQ(troupe({"train", first, "--run-dir", path("runs")}).code, 0);
  const auto checkpoints = checkpoint_files(path("runs/1-named/checkpoints"));
  ASSERT_FALSE(checkpoints.empty());
  const auto resumed = [&](const std::string& file) {
    return troupe({"train", file, "--resume", checkpoints.front(), "--set", "train.finish={steps=4}"});
  };
  const auto same = resumed(stored(s, ways_to_keep[2]));
  EXPECT_EQ(same.code, 0) << same.out << same.err;
  auto turned = s;
  turned.data += "class_names = [\"snow\", \"iris, blue\", \"red \\\"one\\\"\"]\n";
  const auto other = resumed(stored(turned, ways_to_keep[2]));
  EXPECT_EQ(other.code, 2) << other.out;
  EXPECT_THAT(other.err, HasSubstr("the order of the classes is "));
}

}  // namespace
}  // namespace troupe
