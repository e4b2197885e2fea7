// `troupe new --data`: a job for the user's data, which trains as it is.
#include <gmock/gmock.h>

#include <cstring>
#include <fstream>
#include <random>

#include "runtime/node/images/png_encode.hpp"
#include "tests/apps/child.hpp"

namespace troupe {
namespace {

using namespace testing_apps;
using testing::HasSubstr;
using testing::Not;

class new_data : public command_test {
 protected:
  // The last event of a training of the job that `troupe new --data` writes.
  nlohmann::json trained(const std::string& data, std::vector<std::string> more = {}) const {
    std::vector<std::string> words{"new", "--data", data, "--out", "job.toml"};
    words.insert(words.end(), more.begin(), more.end());
    const auto made = troupe(words);
    EXPECT_EQ(made.code, 0) << made.out << made.err;
    EXPECT_THAT(made.out, HasSubstr("next: troupe train job.toml\n"));
    const auto o = troupe({"train", "job.toml", "--json"});
    EXPECT_EQ(o.code, 0) << o.err << file_text("job.toml");
    const auto done = of_kind(objects(o.out), "done");
    return done.empty() ? nlohmann::json() : done.back();
  }
  static std::string npy(const std::string& descr, const std::string& shape, const std::string& numbers) {
    auto header = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }";
    header += std::string(118 - header.size(), ' ') + "\n";
    return std::string("\x93NUMPY\x01\x00\x77\x00", 10) + header + numbers;
  }
  // A folder with 50 images of 8x8 and their classes.
  void write_digits(const std::string& folder) {
    std::filesystem::create_directories(path(folder));
    std::string pixels, labels;
    for (int i = 0; i < 50; ++i) {
      pixels += std::string(64, static_cast<char>(i % 2 == 0 ? 200 : 20 + i));
      labels += static_cast<char>(i % 2);
    }
    write(folder + "/x_train.npy", npy("|u1", "(50, 8, 8)", pixels));
    write(folder + "/y_train.npy", npy("|u1", "(50,)", labels));
  }
  std::string refused(const std::string& data, std::vector<std::string> more = {}) const {
    std::vector<std::string> words{"new", "--data", data, "--out", "bad.toml"};
    words.insert(words.end(), more.begin(), more.end());
    const auto made = troupe(words);
    EXPECT_EQ(made.code, 2) << made.out;
    EXPECT_FALSE(std::filesystem::exists(path("bad.toml")));
    return made.err;
  }
};

TEST_F(new_data, table_with_named_classes_trains_to_an_accuracy) {
  std::mt19937 draw(1);
  std::normal_distribution<double> noise(0, 20);
  std::string text = "id,note,height,weight,species\n";
  for (int i = 0; i < 240; ++i)
    text += std::to_string(i + 1) + ",\"a, \"\"b\"\"\nc\"," + std::to_string(1000 + (i % 3) * 100 + noise(draw)) + "," +
            (i % 50 == 7 ? "" : std::to_string(-(i % 3) + noise(draw) / 100)) + "," +
            (i % 3 == 0   ? "setosa"
             : i % 3 == 1 ? "virginica"
                          : "blue") +
            "\n";
  const auto done = trained(write("iris.csv", text));
  EXPECT_GT(done.value("test_accuracy", 0.0), 0.9) << done;
  const auto job = file_text("job.toml");
  EXPECT_THAT(job, HasSubstr("\nlabel = \"species\"\n"));
  EXPECT_THAT(job, HasSubstr("\nignore = [\"id\", \"note\"]\n"));
  EXPECT_THAT(job, HasSubstr("\nmissing = \"mean\"\n"));
}

TEST_F(new_data, table_with_numbers_trains_a_regression) {
  std::string text;
  for (int i = 0; i < 300; ++i)
    text += std::to_string(i % 17) + ";" + std::to_string(i % 23) + ";" +
            std::to_string(200000 + 5000 * (i % 17) - 3000 * (i % 23)) + "\n";
  const auto data = write("houses.csv", text);
  trained(data, {"--label", "2"});
  const auto job = file_text("job.toml");
  EXPECT_THAT(job, HasSubstr("\ntargets = [\"2\"]\n"));
  EXPECT_THAT(job, HasSubstr("\nseparator = \";\"\n"));
  EXPECT_THAT(job, HasSubstr("\nheader = false\n"));
}

TEST_F(new_data, images_in_class_folders_train_to_an_accuracy) {
  std::mt19937 draw(2);
  for (int k = 0; k < 60; ++k) {
    images::image i{12, 10, 3, std::vector<std::uint8_t>(360)};
    for (std::size_t p = 0; p < 360; ++p)
      i.bytes[p] = static_cast<std::uint8_t>(draw() % 100 + (k % 2 == 0 && p % 3 == 0 ? 120 : 0));
    const auto folder = folder_ / "photos" / (k % 2 == 0 ? "red" : "dark");
    std::filesystem::create_directories(folder);
    const auto png = images::encode_png(i);
    ASSERT_TRUE(png);
    std::ofstream(folder / (std::to_string(k) + ".png"), std::ios::binary)
        .write(reinterpret_cast<const char*>(png->data()), static_cast<std::streamsize>(png->size()));
  }
  const auto done = trained(path("photos"));
  EXPECT_GT(done.value("test_accuracy", 0.0), 0.9) << done;
  EXPECT_THAT(file_text("job.toml"), HasSubstr("\nchannel_mean = ["));
}

TEST_F(new_data, arrays_and_texts_are_recognised) {
  write_digits("arrays");
  const auto made = troupe({"new", "--data", "arrays"});
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(file_text("arrays.toml"), HasSubstr("\nshape = [1, 8, 8]\n"));
  EXPECT_EQ(troupe({"check", "arrays.toml"}).code, 0);

  // Integers that are prices are no classes.
  std::string prices;
  for (std::int64_t i = 0; i < 50; ++i) {
    const std::int64_t price = 200'000 + 1000 * (i % 2);
    prices += std::string(reinterpret_cast<const char*>(&price), sizeof price);
  }
  write("arrays/y_train.npy", npy("<i8", "(50,)", prices));
  ASSERT_EQ(troupe({"new", "--data", "arrays", "--out", "prices.toml"}).code, 0);
  EXPECT_THAT(file_text("prices.toml"), HasSubstr("\nlabel_kind = \"values\"\n"));

  std::string text;
  for (int i = 0; i < 400; ++i) text += "the cat sat on the mat " + std::to_string(i) + "\n";
  write("poems.txt", text);
  ASSERT_EQ(troupe({"new", "--data", "poems.txt"}).code, 0);
  const auto trained = troupe({"train", "poems.toml", "--set", "train.finish={ steps = 2 }", "--run-dir", path("runs")});
  EXPECT_EQ(trained.code, 0);
  EXPECT_THAT(trained.out, HasSubstr("\n            troupe sample 1"));
}

TEST_F(new_data, values_far_from_0_are_scaled_to_mean_0) {
  std::string text = "time,price,class\n";
  for (int i = 0; i < 100; ++i)
    text += std::to_string(1700000000 + i % 10) + "," + std::to_string(50000 + i % 7) + "," + std::to_string(i % 2) + "\n";
  write("far.csv", text);
  ASSERT_EQ(troupe({"new", "--data", "far.csv"}).code, 0);
  const auto o = troupe({"data", "far.toml", "--json"});
  ASSERT_EQ(o.code, 0) << o.err;
  for (const auto& c : objects(o.out).back()["train"]["channels"]) {
    EXPECT_NEAR(c["mean"].get<double>(), 0, 0.01);
    EXPECT_NEAR(c["deviation"].get<double>(), 1, 0.01);
  }
}

TEST_F(new_data, job_is_named_after_the_folder) {
  const auto photos = folder_ / "photos";
  std::filesystem::create_directories(photos);
  std::string text;
  for (int i = 0; i < 400; ++i) text += "the cat sat on the mat " + std::to_string(i) + "\n";
  write("photos/poems.txt", text);
  ASSERT_EQ(troupe({"new", "--data", "photos/../photos/poems.txt"}).code, 0);
  EXPECT_TRUE(std::filesystem::exists(path("poems.toml")));
  for (const char* name : {".", ".."}) EXPECT_THAT(troupe({"new", name}).err, HasSubstr("bad name '" + std::string(name) + "'"));
  write_digits("photos");
  ASSERT_EQ(troupe({"new", "--data", "photos/"}).code, 0);
  EXPECT_THAT(file_text("photos.toml"), HasSubstr("name = \"photos\""));
}

TEST_F(new_data, fields_that_are_not_finite_are_texts) {
  std::string text = "x,y\n";
  for (int i = 0; i < 30; ++i) text += std::to_string(i % 4) + "," + (i == 3 ? "1e999" : std::to_string(i % 3)) + "\n";
  EXPECT_THAT(refused(write("inf.csv", text)), HasSubstr("column 'y' has numbers and texts"));
}

TEST_F(new_data, a_large_table_is_looked_at_in_part) {
  std::string text = "x,y\n";
  for (int i = 0; i < 25000; ++i) text += std::to_string(i % 100) + "," + std::to_string(i % 2) + "\n";
  write("many.csv", text);
  const auto made = troupe({"new", "--data", "many.csv"});
  EXPECT_THAT(made.out, HasSubstr("at least 20,000 rows")) << made.err;
}

TEST_F(new_data, data_that_cannot_be_trained_on_is_an_error_that_says_what_to_do) {
  EXPECT_THAT(refused("none.csv"), HasSubstr("none.csv: there is no such file or folder"));
  EXPECT_THAT(refused(write("few.csv", "a,b\n1,2\n")), HasSubstr("few.csv: it has 1 row; training needs at least 5"));
  std::string rows = "x,name\n";
  for (int i = 0; i < 20; ++i) rows += std::to_string(i) + ",person " + std::to_string(i) + "\n";
  const auto people = write("people.csv", rows);
  EXPECT_THAT(refused(people), HasSubstr("column 'name' has a text of its own in most rows"));
  EXPECT_THAT(refused(people, {"--label", "nam"}), HasSubstr("there is no column 'nam'; did you mean 'name'?"));
  EXPECT_THAT(refused(write("odd.csv", rows + "1,2,3\n")), HasSubstr("odd.csv:22: 3 fields, but the first line has 2"));
  EXPECT_THAT(refused(write("data.bin", "x")), HasSubstr("it is no folder of images, .csv, .tsv, .npz or .txt file"));
  std::filesystem::create_directories(path("empty"));
  EXPECT_THAT(refused(path("empty")), HasSubstr("no class folders found: put images into"));
  EXPECT_THAT(refused(people, {"--from", "mlp"}), HasSubstr("--data and --from exclude each other"));
  EXPECT_THAT(troupe({"new"}).err, HasSubstr("write the name of the job, as in `troupe new lenet`, or --data PATH"));
  EXPECT_THAT(refused(write("data.zip", "x")), HasSubstr("unpack it and name the folder"));
  EXPECT_THAT(refused(write("image.PNG", "x")), HasSubstr("put the images of each class into a folder of its own"));
  EXPECT_THAT(refused(write("sheet.xlsx", "x")), HasSubstr("save the sheet as .csv"));
  EXPECT_THAT(refused(write("picture.csv", "\x89PNG\r\n\x1a\n" + std::string(3, '\0') + "IHDR\n1\n2\n3\n4\n5\n")),
              HasSubstr("a NUL byte: this is no text; save the table as CSV in UTF-8"));
}

TEST_F(new_data, numbers_with_a_comma_are_named) {
  std::string text = "size;weight;kind\n", mixed = "price,size,kind\n";
  for (int i = 0; i < 20; ++i) {
    text += std::to_string(i) + ",5;1," + std::to_string(i) + ";" + (i % 2 == 0 ? "a" : "b") + "\n";
    mixed += "\"1,0" + std::to_string(10 + i) + "\"," + std::to_string(2 * i) + "," + (i % 2 == 0 ? "a" : "b") + "\n";
  }
  EXPECT_THAT(
      refused(write("komma.csv", text)),
      HasSubstr("no column but the label has numbers ('size', 'weight': numbers with a comma; write them as 21.5 and 1250"));
  EXPECT_THAT(refused(path("komma.csv"), {"--label", "size"}), HasSubstr("column 'size' has numbers with a comma"));
  const auto made = troupe({"new", "--data", write("mixed.csv", mixed)});
  EXPECT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.out, HasSubstr("  ignores 'price': numbers with a comma; write them"));
  EXPECT_THAT(made.out, Not(HasSubstr("numbers of rows")));
}

TEST_F(new_data, a_job_in_another_folder_is_told_where_its_data_is) {
  std::filesystem::create_directories(path("sub"));
  std::string text = "x,kind\n";
  for (int i = 0; i < 20; ++i) text += std::to_string(i * i) + (i % 2 == 0 ? ",cat\n" : ",dog\n");
  write("pets.csv", text);
  ASSERT_EQ(troupe({"new", "--data", "pets.csv", "--out", "sub/pets.toml"}).code, 0);
  std::filesystem::rename(path("pets.csv"), path("sub/pets.csv"));
  const auto o = troupe({"check", "sub/pets.toml"});
  EXPECT_EQ(o.code, 2);
  EXPECT_THAT(o.err + o.out,
              HasSubstr("relative paths start at the current folder, not at the job file: try --set data.path=sub/pets.csv"));
  EXPECT_EQ(troupe({"check", "sub/pets.toml", "--set", "data.path=sub/pets.csv"}).code, 0);
}

TEST_F(new_data, names_of_classes_with_commas_are_quoted) {
  std::string text = "x,kind\n";
  for (int i = 0; i < 20; ++i) text += std::to_string(i * i) + (i % 2 == 0 ? ",\"cat, small\"\n" : ",dog\n");
  EXPECT_THAT(troupe({"new", "--data", write("pets.csv", text)}).out, HasSubstr(": 'cat, small', 'dog'\n"));
}

TEST_F(new_data, arrays_that_cannot_be_read_are_named) {
  write_digits("arrays");
  write("arrays/y_train.npy", npy("<U1", "(50,)", std::string(200, 'a')));
  const auto texts = refused(path("arrays"));
  EXPECT_THAT(texts, HasSubstr("y_train.npy"));
  EXPECT_THAT(texts, Not(HasSubstr("with a usual name")));
  EXPECT_THAT(refused(write("broken.npz", "no archive")),
              HasSubstr("broken.npz: it is not a folder of .npy files, and no .npz file"));
}

}  // namespace
}  // namespace troupe
