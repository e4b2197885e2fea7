// `troupe predict`: the same predictions for the same examples, whatever file they come from, with
// the accuracy of `troupe test`; and every reason to refuse an input.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <sstream>

#include <png.h>

#include "tests/apps/child.hpp"

namespace troupe {
namespace {

using namespace testing_apps;

// 28 test images of 6x5 pixels in 3 classes: a bright patch whose place is the class.
constexpr int height = 6, width = 5, tested = 28;

std::vector<std::uint8_t> pixels_of(int number) {
  std::vector<std::uint8_t> p(height * width);
  for (int k = 0; k < height * width; ++k) p[static_cast<std::size_t>(k)] = static_cast<std::uint8_t>((number * 37 + k * 11) % 90);
  for (int k = 0; k < 6; ++k)
    p[static_cast<std::size_t>((number % 3) * 10 + k)] = static_cast<std::uint8_t>(100 + (number * 5 + k * 29) % 90);
  return p;
}

std::string all_pixels(int count) {
  std::string s;
  for (int i = 0; i < count; ++i)
    for (auto b : pixels_of(i)) s += static_cast<char>(b);
  return s;
}

std::string idx_images(int count) {
  return std::string("\0\0\x08\3\0\0\0", 7) + static_cast<char>(count) + std::string("\0\0\0\6\0\0\0\5", 8) + all_pixels(count);
}
std::string idx_labels(int count) {
  std::string s = std::string("\0\0\x08\1\0\0\0", 7) + static_cast<char>(count);
  for (int i = 0; i < count; ++i) s += static_cast<char>(i % 5 == 4 ? (i + 1) % 3 : i % 3);  // some labels are wrong
  return s;
}

const std::string idx_job = R"([job]
name = "patches"
[data]
source = "idx"
path = "."
scale = 0.01
mean = 0.4
batch = 12
augment = { crop_height = 5, crop_width = 4, mean = [0.1], mirror = true }
[[layer]]
name = "conv"
type = "convolution"
inputs = ["data"]
outputs = 3
kernel = 3
[[layer]]
name = "relu"
type = "relu"
inputs = ["conv"]
[[layer]]
name = "score"
type = "linear"
inputs = ["relu"]
outputs = 3
[[layer]]
name = "loss"
type = "softmax_loss"
inputs = ["score", "label"]
[[layer]]
name = "accuracy"
type = "accuracy"
inputs = ["score", "label"]
phase = "test"
[train]
dynamics = { rule = "adamw", lr = 0.01 }
finish = { steps = 300 }
[pipeline]
packets = 2
)";

std::string npy_file(const std::string& descr, const std::string& shape, const std::string& numbers) {
  auto header = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }";
  header += std::string(118 - header.size(), ' ') + "\n";
  return std::string("\x93NUMPY\x01\x00\x77\x00", 10) + header + numbers;
}

// A CSV answer without its first two columns, by index.
std::vector<std::string> answers_of(const std::string& csv) {
  std::istringstream lines(csv);
  std::vector<std::string> out;
  std::string line;
  std::getline(lines, line);
  while (std::getline(lines, line)) out.push_back(line.substr(line.find(',', line.find(',') + 1) + 1));
  return out;
}

class predict : public command_test {
 protected:
  void SetUp() override {
    write("train-images-idx3-ubyte", idx_images(60));
    write("train-labels-idx1-ubyte", idx_labels(60));
    write("t10k-images-idx3-ubyte", idx_images(tested));
    write("t10k-labels-idx1-ubyte", idx_labels(tested));
    write("job.toml", idx_job);
    const auto o = troupe({"train", "job.toml", "--out", "net.safetensors"});
    ASSERT_EQ(o.code, 0) << o.err;
  }
  outcome predicted(std::vector<std::string> words) const {
    words.insert(words.begin(), {"predict", "job.toml", "--weights", "net.safetensors"});
    return troupe(words);
  }
  void write_png(const std::string& name, int number) const {
    png_image image{};
    image.version = PNG_IMAGE_VERSION;
    image.width = width, image.height = height, image.format = PNG_FORMAT_GRAY;
    const auto p = pixels_of(number);
    ASSERT_TRUE(png_image_write_to_file(&image, path(name).c_str(), 0, p.data(), 0, nullptr));
  }
};

TEST_F(predict, of_the_test_data_has_the_accuracy_of_troupe_test) {
  const auto test = of_kind(objects(troupe({"test", "job.toml", "--weights", "net.safetensors", "--json"}).out), "done");
  ASSERT_EQ(test.size(), 1u);
  const auto o = predicted({"--test", "--json"});
  ASSERT_EQ(o.code, 0) << o.err << o.out;
  const auto all = objects(o.out);
  const auto rows = of_kind(all, "prediction"), done = of_kind(all, "done");
  ASSERT_EQ(rows.size(), std::size_t{tested});
  ASSERT_EQ(done.size(), 1u);
  double hits = 0;
  for (const auto& r : rows) hits += r.at("class") == r.at("label") ? 1 : 0;
  EXPECT_EQ(done[0].at("accuracy").get<double>(), hits / tested);
  EXPECT_NEAR(test[0].at("test_accuracy").get<double>(), hits / tested, 1e-6);
  EXPECT_GT(hits, tested / 2) << "the net has learnt something";
  EXPECT_LT(hits, tested) << "some labels are wrong";
}

// The files hold the test images in every form. All get the same crop, scale and mean.
TEST_F(predict, gives_the_same_answers_for_every_kind_of_file) {
  const auto pixels = all_pixels(tested);
  std::vector<float> values;
  std::string rows;
  for (std::size_t k = 0; k < pixels.size(); ++k) {
    const auto byte = static_cast<std::uint8_t>(pixels[k]);
    values.push_back(static_cast<float>(byte * 0.01 - 0.4));
    rows += std::to_string(byte) + ((k + 1) % (height * width) == 0 ? "\n" : ",");
  }
  write("u1.npy", npy_file("|u1", "(28, 6, 5)", pixels));
  write("f4.npy", npy_file("<f4", "(28, 1, 6, 5)", {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)}));
  write("rows.csv", rows);
  std::filesystem::create_directories(path("images/more"));
  for (int i = 0; i < tested; ++i)
    write_png((i < 20 ? "images/" : "images/more/") + std::string(1, static_cast<char>('A' + i)) + ".png", i);

  const auto test = predicted({"--test", "--all"});
  EXPECT_EQ(test.out.substr(0, test.out.find('\n')),
            "input,index,class,probability,label,probability_0,probability_1,probability_2");
  auto want = answers_of(test.out);
  ASSERT_EQ(want.size(), std::size_t{tested});
  for (auto& line : want) {  // without the label
    const auto label = line.find(',', line.find(',') + 1);
    line.erase(label, line.find(',', label + 1) - label);
  }
  EXPECT_NE(want[0], want[1]);
  for (const char* name : {"t10k-images-idx3-ubyte", "u1.npy", "f4.npy", "rows.csv", "images"}) {
    const auto o = predicted({name, "--all"});
    EXPECT_EQ(o.code, 0) << o.err;
    EXPECT_EQ(o.err, "28 examples\n");
    EXPECT_EQ(answers_of(o.out), want) << name;
  }
  const auto several = predicted({"images/B.png", "u1.npy", "images/A.png", "images/C.png", "--all"});
  const auto got = answers_of(several.out);
  ASSERT_EQ(got.size(), 3u + tested) << several.err;
  EXPECT_EQ(got.front(), want[1]);
  EXPECT_EQ(got[1], want[0]);
  EXPECT_EQ(got[tested + 1], want[0]);
  EXPECT_EQ(several.out.find("images/B.png,0,"), several.out.find('\n') + 1);
}

TEST_F(predict, reads_standard_input) {
  const auto pixels = all_pixels(tested);
  write("u1.npy", npy_file("|u1", "(28, 6, 5)", pixels));
  std::string rows;
  for (std::size_t k = 0; k < pixels.size(); ++k)
    rows += std::to_string(static_cast<std::uint8_t>(pixels[k])) + ((k + 1) % (height * width) == 0 ? "\n" : ",");
  write("rows.csv", rows);
  write_png("a.png", 1);
  write("broken.png", "\x89PNG and no more"), write("empty", ""), write("binary", std::string("\1\2\3\0", 4));
  const auto piped = [&](const std::string& file, const std::string& words) {
    const auto line = troupe_program() + " predict job.toml --weights net.safetensors " + words + " < " + file;
    return child("/bin/sh", {"-c", line}, folder_).wait();
  };
  for (const char* name : {"u1.npy", "rows.csv", "t10k-images-idx3-ubyte", "a.png"}) {
    const auto want = predicted({name}), got = piped(name, "-");
    EXPECT_EQ(got.code, 0) << got.err;
    EXPECT_EQ(answers_of(got.out), answers_of(want.out)) << name;
    EXPECT_NE(got.out.find("\nstdin,0,"), std::string::npos) << got.out;
  }
  EXPECT_EQ(answers_of(piped("u1.npy", "--input - --format npy").out), answers_of(predicted({"u1.npy"}).out));
  const auto refused = [&](const std::string& file, const std::string& words, const std::string& why) {
    const auto o = piped(file, words);
    EXPECT_EQ(o.code, 2) << o.err;
    EXPECT_NE(o.err.find(why), std::string::npos) << o.err;
  };
  refused("empty", "-", "stdin: is empty");
  refused("binary", "-", "stdin: it is no image (PNG, JPEG), .npy, CSV or IDX file");
  refused("rows.csv", "- --format npy", "stdin: ");
  refused("broken.png", "-", "stdin: ");
  refused("a.png", "- -", "stdin: it can be read only once");
  refused("a.png", "a.png --format image", "name it with the input -");
}

TEST_F(predict, prints_the_most_probable_classes_and_names_none) {
  const auto rows = of_kind(objects(predicted({"t10k-images-idx3-ubyte", "--json", "--top", "3", "--all"}).out), "prediction");
  ASSERT_EQ(rows.size(), std::size_t{tested});
  for (const auto& r : rows) {
    ASSERT_EQ(r.at("top").size(), 3u);
    double sum = 0, before = 1;
    for (const auto& t : r.at("top")) {
      const auto p = t.at("probability").get<double>();
      EXPECT_EQ(p, r.at("outputs").at(t.at("class").get<std::size_t>()).get<double>());
      EXPECT_LE(p, before);
      before = p;
      sum += p;
    }
    EXPECT_NEAR(sum, 1, 1e-6);
    EXPECT_EQ(r.at("class"), r.at("top")[0].at("class"));
    EXPECT_FALSE(r.contains("name")) << "IDX files have no names of classes";
    EXPECT_FALSE(r.contains("label"));
  }
}

TEST_F(predict, writes_a_file_when_it_is_complete) {
  const auto o = predicted({"t10k-images-idx3-ubyte", "--out", "answers.csv"});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(o.out, "answers.csv: 28 examples\n");
  EXPECT_EQ(file_text("answers.csv"), predicted({"t10k-images-idx3-ubyte"}).out);
  EXPECT_FALSE(std::filesystem::exists(path("answers.csv.tmp")));
  EXPECT_EQ(predicted({"t10k-images-idx3-ubyte", "--out", "no/such/folder.csv"}).code, 2);
}

TEST_F(predict, prints_the_output_of_a_layer) {
  const auto o = predicted({"t10k-images-idx3-ubyte", "--layer", "score"});
  EXPECT_EQ(o.out.substr(0, o.out.find('\n')), "input,index,output_0,output_1,output_2");
  EXPECT_EQ(answers_of(o.out).size(), std::size_t{tested});
  const auto relu = predicted({"t10k-images-idx3-ubyte", "--layer", "relu", "--json"});
  EXPECT_EQ(of_kind(objects(relu.out), "prediction")[0].at("outputs").size(), 18u) << "3 channels of 3x2";
  const auto wrong = predicted({"t10k-images-idx3-ubyte", "--layer", "scores"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_NE(wrong.err.find("there is no layer 'scores'; did you mean 'score'?"), std::string::npos) << wrong.err;
}

TEST_F(predict, refuses_inputs_that_do_not_fit_and_names_them) {
  const auto refused = [&](const std::vector<std::string>& words, int code, const std::string& text) {
    const auto o = predicted(words);
    EXPECT_EQ(o.code, code) << o.err;
    EXPECT_EQ(o.out, "");
    EXPECT_NE(o.err.find(text), std::string::npos) << o.err;
  };
  write("small.npy", npy_file("|u1", "(2, 3, 3)", std::string(18, '\1')));
  write("rows.csv", "1,2,3\n");
  write("words.txt", "hello\n");
  write("net.onnx", "onnx");
  write("torn.png", "\x89PNG\r\n\x1a\n");
  write_png("fits.png", 1);
  refused({"small.npy"}, 2, "small.npy: an example has shape 3x3, but the net takes 1x6x5");
  refused({"rows.csv"}, 2, "rows.csv: a line has 3 numbers, but the net takes 1x6x5 (30 numbers)");
  refused({"words.txt"}, 2, "words.txt: ");
  refused({"net.onnx"}, 2, "net.onnx: it is no image (PNG, JPEG) and no .npy, .csv");
  refused({"torn.png"}, 2, "torn.png: ");
  refused({"absent.png"}, 2, "absent.png: ");
  refused({}, 2, "name inputs");
  refused({"fits.png", "--test"}, 2, "leave out the inputs");
  refused({"fits.png", "--top", "4"}, 2, "--top: the net has only 3 classes");
  const auto no_weights = troupe({"predict", "job.toml", "fits.png"});
  EXPECT_EQ(no_weights.code, 2);
  EXPECT_NE(no_weights.err.find("job.toml: a job file has no weights: add --weights FILE"), std::string::npos) << no_weights.err;
}

TEST_F(predict, resizes_images_on_request) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = 10, image.height = 12, image.format = PNG_FORMAT_RGB;
  const std::vector<std::uint8_t> white(12 * 10 * 3, 200);
  ASSERT_TRUE(png_image_write_to_file(&image, path("large.png").c_str(), 0, white.data(), 0, nullptr));
  const auto refused = predicted({"large.png"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("large.png: the image is 12x10 (height x width), but the net takes 6x5; --resize"), std::string::npos)
      << refused.err;
  EXPECT_EQ(predicted({"large.png", "--resize"}).code, 0);
}

TEST_F(predict, of_a_run_uses_its_job_and_best_weights) {
  const auto trained = troupe({"train", "job.toml", "--run-dir", "runs"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  const auto o = troupe({"predict", "1", "t10k-images-idx3-ubyte", "--run-dir", "runs", "--all"});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(answers_of(o.out).size(), std::size_t{tested});
  EXPECT_EQ(troupe({"predict", "patches", "t10k-images-idx3-ubyte", "--run-dir", "runs", "--all"}).out, o.out);
  const auto unknown = troupe({"predict", "9", "t10k-images-idx3-ubyte", "--run-dir", "runs"});
  EXPECT_EQ(unknown.code, 2) << unknown.err;
}

class predict_kinds : public command_test {};

TEST_F(predict_kinds, images_have_names_of_classes) {
  const auto put = [&](const std::string& name, std::uint8_t grey) {
    std::filesystem::create_directories(std::filesystem::path(path(name)).parent_path());
    png_image image{};
    image.version = PNG_IMAGE_VERSION;
    image.width = image.height = 4, image.format = PNG_FORMAT_GRAY;
    const std::vector<std::uint8_t> p(16, grey);
    ASSERT_TRUE(png_image_write_to_file(&image, path(name).c_str(), 0, p.data(), 0, nullptr));
  };
  for (const std::string part : {"train", "test"})
    for (int i = 0; i < 8; ++i) {
      put("set/" + part + "/a, dark/" + std::to_string(i) + ".png", static_cast<std::uint8_t>(20 + i));
      put("set/" + part + "/bright/" + std::to_string(i) + ".png", static_cast<std::uint8_t>(220 + i));
    }
  write("job.toml", R"([job]
name = "grey"
[data]
source = "images"
path = "set"
channels = 1
batch = 8
[[layer]]
name = "score"
type = "linear"
inputs = ["data"]
outputs = 2
[[layer]]
name = "loss"
type = "softmax_loss"
inputs = ["score", "label"]
[train]
dynamics = { rule = "adamw", lr = 0.05 }
finish = { steps = 200 }
)");
  const auto o = troupe({"train", "job.toml", "--out", "net.safetensors"});
  ASSERT_EQ(o.code, 0) << o.err;
  const auto p = troupe({"predict", "job.toml", "--weights", "net.safetensors", "set/test"});
  ASSERT_EQ(p.code, 0) << p.err;
  EXPECT_NE(p.out.find("input,index,class,name,probability\n\"set/test/a, dark/0.png\",0,0,\"a, dark\","), std::string::npos)
      << p.out;
  EXPECT_NE(p.out.find("set/test/bright/7.png,0,1,bright,"), std::string::npos) << p.out;
}

TEST_F(predict_kinds, regression_has_outputs_and_csv_skips_the_label) {
  std::string train = "x,kind,y\n";
  for (int i = 0; i < 40; ++i) train += std::to_string(i % 7) + "," + std::to_string(i % 2) + "," + std::to_string(i % 5) + "\n";
  write("train.csv", train);
  write("job.toml", R"([job]
name = "copy"
[data]
source = "csv"
path = "train.csv"
test_fraction = 0.2
label = "kind"
scale = [0.1, 0.5]
batch = 8
[[layer]]
name = "out"
type = "linear"
inputs = ["data"]
outputs = 2
[[layer]]
name = "loss"
type = "euclidean"
inputs = ["out", "data"]
[train]
dynamics = { rule = "sgd", lr = 0.1 }
finish = { steps = 5 }
)");
  const auto o = troupe({"train", "job.toml", "--out", "net.safetensors"});
  ASSERT_EQ(o.code, 0) << o.err;
  const auto predicted = [&](const std::string& file) {
    return troupe({"predict", "job.toml", "--weights", "net.safetensors", file, "--json"});
  };
  write("labelled.csv", "x,kind,y\n3,1,4\n");
  write("plain.csv", "x,y\n3,4\n");
  const auto a = of_kind(objects(predicted("labelled.csv").out), "prediction"),
             b = of_kind(objects(predicted("plain.csv").out), "prediction");
  ASSERT_EQ(a.size(), 1u);
  ASSERT_EQ(b.size(), 1u);
  EXPECT_EQ(a[0].at("outputs").size(), 2u);
  EXPECT_EQ(a[0].at("outputs"), b[0].at("outputs"));
  EXPECT_FALSE(a[0].contains("class"));
}

}  // namespace
}  // namespace troupe
