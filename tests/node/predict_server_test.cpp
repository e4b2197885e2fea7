// Predictions over HTTP: batching, answers, and clients that are wrong.
#include "runtime/node/serving/predict_server.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "ops/device.hpp"
#include "runtime/node/config/prepare_text.hpp"
#include "runtime/node/images/png_encode.hpp"
#include "runtime/node/node_tables.hpp"
#include "runtime/node/predict/net_file.hpp"
#include "runtime/node/serving/request_body.hpp"
#include "tests/http_client.hpp"

namespace troupe {
namespace {

using testing_http::body_of;
using testing_http::http_client;
using testing_http::http_get;
using testing_http::status_of;

constexpr const char* served_job = R"(
[data]
source = "synthetic"
shape = [4]
classes = 3
examples = 60
test_examples = 20
batch = 10
[[layer]]
name = "scores"
type = "linear"
inputs = ["data"]
outputs = 3
[[layer]]
name = "loss"
type = "softmax_loss"
inputs = ["scores", "label"]
[train]
finish = { steps = 1 }
)";

std::shared_ptr<prepared_job> served() {
  const auto j = prepare_text({served_job, "served.toml", {}}, std::make_shared<const tables>(node_tables()));
  if (!j) throw std::runtime_error(j.error().front().to_string());
  const auto bytes = net_file_bytes(**j, initial_weights(**j, *make_cpu_device()), net_weights::f32);
  const auto owner = std::make_shared<std::string>(*bytes);
  return *read_net_file(owner, owner->data(), owner->size(), "served.troupe");
}

std::vector<float> scores_of(const std::shared_ptr<prepared_job>& j, const std::vector<float>& x) {
  auto net = net_runner::make(j, {}, 1);
  std::vector<float> out(x.size() / 4 * 3);
  EXPECT_TRUE((*net)->run(x.data(), static_cast<std::int64_t>(x.size()) / 4, out.data()));
  return out;
}

TEST(batcher, computes_requests_together_and_gives_each_its_own) {
  const auto j = served();
  auto net = net_runner::make(j, {}, 1);
  batcher b(**net, {8, std::chrono::seconds(60), 4096});
  std::vector<float> all;
  for (int i = 0; i < 32; ++i) all.push_back(0.25F * static_cast<float>(i % 7) - 0.5F);
  const auto wanted = scores_of(j, all);
  std::mutex lock;
  std::condition_variable news;
  std::vector<std::vector<float>> got(3);
  int left = 3;
  // 3 + 4 + 1 examples: the third request fills the pass, long before the deadline.
  const std::pair<int, int> parts[] = {{0, 3}, {3, 4}, {7, 1}};
  for (int k = 0; k < 3; ++k)
    ASSERT_TRUE(b.submit({all.begin() + 4 * parts[k].first, all.begin() + 4 * (parts[k].first + parts[k].second)}, parts[k].second,
                         [&, k](batcher::outputs&& out) {
                           const std::lock_guard guard(lock);
                           got[static_cast<std::size_t>(k)] = *std::move(out);
                           --left;
                           news.notify_one();
                         }));
  std::unique_lock guard(lock);
  ASSERT_TRUE(news.wait_for(guard, std::chrono::seconds(20), [&] { return left == 0; }));
  for (int k = 0; k < 3; ++k) EXPECT_TRUE(std::equal(got[k].begin(), got[k].end(), wanted.begin() + 3 * parts[k].first)) << k;
  EXPECT_EQ(b.counts().passes, 1U);
  EXPECT_EQ(b.counts().examples, 8U);
}

TEST(batcher, ends_requests_that_wait_and_refuses_too_many) {
  auto net = net_runner::make(served(), {}, 1);
  int failed = 0;
  {
    batcher b(**net, {64, std::chrono::seconds(60), 10});
    const auto done = [&](batcher::outputs&& out) { failed += out ? 0 : 1; };
    EXPECT_TRUE(b.submit(std::vector<float>(4 * 6), 6, done));
    EXPECT_TRUE(b.submit(std::vector<float>(4 * 4), 4, done));
    EXPECT_FALSE(b.submit(std::vector<float>(4), 1, done));
    EXPECT_EQ(b.counts().refused, 1U);
  }
  EXPECT_EQ(failed, 2);
}

TEST(batcher, examples_wait_within_the_memory_for_them) {
  batcher_options o;
  o.most = 8, o.most_waiting = 100, o.most_waiting_bytes = 1000;
  EXPECT_EQ(most_waiting_examples(o, 20), 50);
  EXPECT_EQ(most_waiting_examples(o, 4), 100);
  EXPECT_EQ(most_waiting_examples(o, 1000000), 8);  // a pass must be possible
}

TEST(request_body, of_brackets_takes_no_memory_beyond_itself) {
  const auto j = served();
  const auto peak_kib = [] {
    rusage u{};
    getrusage(RUSAGE_SELF, &u);
    return u.ru_maxrss;
  };
  constexpr std::size_t length = std::size_t{32} << 20;
  for (const std::string& begin : {std::string("{\"examples\": ["), std::string("{\"other\": ["), std::string("[")}) {
    const auto body = begin + std::string(length, '[');
    const auto before = peak_kib();
    EXPECT_FALSE(examples_of_body(body, *j, {}, 4096));
    EXPECT_LT(peak_kib() - before, static_cast<long>(length >> 10));
  }
}

TEST(request_body, ends_at_the_first_example_beyond_the_limit) {
  const auto j = served();
  EXPECT_EQ(examples_of_body(R"({"examples": [[1, 2, 3, 4], [1, 2, 3, 4]]})", *j, {}, 2)->n, 2);
  const auto made = examples_of_body(R"({"examples": [[1, 2, 3, 4], [1, 2, 3, 4], [5 this is never read)", *j, {}, 2);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().text, "a request has at most 2 examples, this one has more");
}

TEST(request_body, of_json_may_have_other_keys_but_not_two_lists_of_examples) {
  const auto j = served();
  const auto made =
      examples_of_body(R"({"id": {"examples": [9]}, "examples": [[1, 2, 3, 4]], "tags": [null, true, {"a": [[]]}]})", *j, {}, 10);
  ASSERT_TRUE(made) << made.error().text;
  EXPECT_EQ(made->values, (std::vector<float>{1, 2, 3, 4}));
  for (const auto* body :
       {R"({"examples": [[1, 2, 3, 4]], "examples": [[1, 2, 3, 4]]})", R"({"examples": {"a": [1]}})",
        R"({"examples": [[1, 2, 3, null]]})", R"({"examples": [{"a": 1}]})", R"({"examples": "a"})", R"({"a": 1})",
        R"({"examples": [[1, 2, 3, 4]]} 5)", R"({"examples": [[1, 2, 3, 4]])", "7", "\"examples\"", "null"})
    EXPECT_FALSE(examples_of_body(body, *j, {}, 10)) << body;
}

class predictions_over_http : public ::testing::Test {
 protected:
  void open(std::vector<std::string> names = {"small"}) {
    std::vector<served_net> nets;
    for (auto& n : names) nets.push_back({std::move(n), job_});
    predict_server_options o;
    o.where = {"127.0.0.1", 0};
    o.batching.deadline = std::chrono::microseconds(500);
    auto made = predict_server::open(std::move(nets), o);
    ASSERT_TRUE(made) << made.error().message;
    server_ = std::move(*made);
  }
  std::string post(const std::string& path, const std::string& body, const std::string& type = "text/plain") const {
    http_client c(server_->port());
    c.send("POST " + path + " HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: " + type +
           "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
    return c.response();
  }
  std::shared_ptr<prepared_job> job_ = served();
  std::unique_ptr<predict_server> server_;
};

TEST_F(predictions_over_http, answers_with_the_class_and_its_probability) {
  open();
  const auto said = post("/predict?all=1&top=2", R"({"examples": [[1, 0, 0, 2], [[0, 1], [0.5, 0]]]})");
  ASSERT_EQ(status_of(said), 200) << said;
  const auto list = nlohmann::json::parse(body_of(said))["predictions"];
  ASSERT_EQ(list.size(), 2U);
  const auto scores = scores_of(job_, {1, 0, 0, 2, 0, 1, 0.5, 0});
  for (std::size_t e = 0; e < 2; ++e) {
    double sum = 0;
    for (std::size_t k = 0; k < 3; ++k) sum += std::exp(scores[3 * e + k]);
    const auto best =
        std::max_element(scores.begin() + static_cast<long>(3 * e), scores.begin() + static_cast<long>(3 * e + 3)) - scores.begin();
    EXPECT_EQ(list[e]["class"].get<std::size_t>(), static_cast<std::size_t>(best) - 3 * e);
    for (std::size_t k = 0; k < 3; ++k) EXPECT_NEAR(list[e]["outputs"][k].get<double>(), std::exp(scores[3 * e + k]) / sum, 1e-6);
    EXPECT_EQ(list[e]["top"].size(), 2U);
    EXPECT_EQ(list[e]["top"][0]["probability"], list[e]["probability"]);
  }
}

TEST_F(predictions_over_http, takes_npy_files) {
  open();
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 4), }";
  header.resize(118, ' ');
  header[117] = '\n';
  std::string body("\x93NUMPY\x01\x00", 8);
  body += static_cast<char>(header.size());
  body += '\0';
  body += header;
  const float x[] = {1, 0, 0, 2, 0, 1, 0.5F, 0};
  body.append(reinterpret_cast<const char*>(x), sizeof x);
  const auto said = post("/predict?all=1", body), same = post("/predict?all=1", R"({"examples": [[1, 0, 0, 2], [0, 1, 0.5, 0]]})");
  ASSERT_EQ(status_of(said), 200) << said;
  EXPECT_EQ(body_of(said), body_of(same));
}

TEST_F(predictions_over_http, takes_the_files_of_a_form) {
  open();
  const auto file = [](const std::string& name, const std::string& content) {
    return "--xyz\r\nContent-Disposition: form-data; name=\"file\"; filename=\"" + name + "\"\r\n\r\n" + content + "\r\n";
  };
  const std::string type = "multipart/form-data; boundary=xyz",
                    field = "--xyz\r\nContent-Disposition: form-data; name=\"x\"\r\n\r\n1\r\n";
  const auto form = file("a.json", R"({"examples": [[1, 0, 0, 2]]})") + field +
                    file("b.json", R"({"examples": [[0, 1, 0.5, 0]]})") + "--xyz--\r\n";
  const auto said = post("/predict?all=1", form, type);
  ASSERT_EQ(status_of(said), 200) << said;
  EXPECT_EQ(body_of(said), body_of(post("/predict?all=1", R"({"examples": [[1, 0, 0, 2], [0, 1, 0.5, 0]]})")));
  const auto wrong = post("/predict", file("bad.json", "{}") + "--xyz--", type);
  EXPECT_EQ(status_of(wrong), 400);
  EXPECT_NE(wrong.find("'bad.json': the body is no .npy file"), std::string::npos) << wrong;
  EXPECT_NE(post("/predict", field + "--xyz--", type).find("the form has no file; send one as in: curl -F file=@picture.jpg"),
            std::string::npos);
}

class picture_facts final : public source {
 public:
  explicit picture_facts(bool resize) : resize_(resize) {}
  shape example() const override { return {1, 2, 2}; }
  std::int64_t classes() const override { return 3; }
  std::int64_t size(split) const override { return 1; }
  std::optional<byte_scaling> bytes() const override { return byte_scaling{{0.5}, {1}}; }
  bool resizes() const override { return resize_; }
  void read(split, const std::vector<std::int64_t>&, tensor&, tensor&) const override {}

 private:
  bool resize_;
};

// As in training: of the size of the net, or resized if the training's images were.
TEST(request_form, images_are_resized_as_in_training) {
  const auto png = images::encode_png({4, 6, 1, std::vector<std::uint8_t>(24, 100)});
  ASSERT_TRUE(png);
  const std::string body(png->begin(), png->end());
  prepared_job j;
  j.data = std::make_shared<picture_facts>(false);
  const auto refused = examples_of_request(body, "image/png", j, {}, 10);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().text.find("is 4 x 6 pixels"), std::string::npos) << refused.error().text;
  const std::vector<float> all(4, 49);
  EXPECT_EQ(examples_of_request(body, "image/png", j, {false, true}, 10).value().values, all);
  j.data = std::make_shared<picture_facts>(true);
  EXPECT_EQ(examples_of_request(body, "image/png", j, {}, 10).value().values, all);
}

TEST(request_form, pixels_of_resized_images_are_bounded) {
  const auto grey = [](std::int64_t height, std::int64_t width) {
    const auto png =
        images::encode_png({height, width, 1, std::vector<std::uint8_t>(static_cast<std::size_t>(height * width), 100)});
    EXPECT_TRUE(png);
    return std::string(png->begin(), png->end());
  };
  prepared_job j;
  j.data = std::make_shared<picture_facts>(false);
  const auto wide = examples_of_body(grey(4096, 4097), j, {false, true}, 10);
  ASSERT_FALSE(wide);
  EXPECT_EQ(wide.error().text,
            "the image: is 4096x4097 pixels (height x width), more than the 2^24 that are resized here: make it smaller");
  EXPECT_EQ(examples_of_body(grey(4, 6), j, {false, true, 24}, 10)->pixels, 24);
  EXPECT_FALSE(examples_of_body(grey(4, 6), j, {false, true, 23}, 10));
  EXPECT_EQ(examples_of_body(grey(4, 6), j, {false, true, 30}, 10, 6)->pixels, 24);
  EXPECT_FALSE(examples_of_body(grey(4, 6), j, {false, true, 30}, 10, 7));
  EXPECT_EQ(examples_of_body(grey(2, 2), j, {false, true, 0}, 10)->pixels, 0) << "of the size of the net";

  std::string form;
  const auto large = grey(4096, 4096);
  for (int k = 0; k < 5; ++k)
    form +=
        "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"" + std::to_string(k) + ".png\"\r\n\r\n" + large + "\r\n";
  const auto made = examples_of_request(form + "--b--", "multipart/form-data; boundary=b", j, {false, true}, 10);
  ASSERT_FALSE(made);
  EXPECT_TRUE(made.error().text.starts_with("'4.png'")) << made.error().text;
  EXPECT_NE(made.error().text.find("more than the 67,108,864 pixels that one request may have resized"), std::string::npos);
  EXPECT_NE(made.error().text.find("--resized-pixels"), std::string::npos);
  const auto more = examples_of_request(form + "--b--", "multipart/form-data; boundary=b", j, {false, true, 5 << 24}, 10);
  EXPECT_EQ(more.value().n, 5) << "a higher limit";
}

TEST(request_form, limit_of_examples_is_that_of_the_request) {
  prepared_job j;
  j.data = std::make_shared<picture_facts>(false);
  const std::string head = "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.json\"\r\n\r\n";
  const auto part = [&](const std::string& examples) { return head + "{\"examples\": [" + examples + "]}\r\n"; };
  const auto of = [&](const std::string& form) {
    return examples_of_request(form + "--b--", "multipart/form-data; boundary=b", j, {}, 2);
  };
  EXPECT_EQ(of(part("[1, 2, 3, 4]") + part("[1, 2, 3, 4]"))->n, 2);
  const auto more = of(part("[1, 2, 3, 4], [1, 2, 3, 4]") + part("[1, 2, 3, 4]"));
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().text, "a request has at most 2 examples, this one has more");
}

TEST_F(predictions_over_http, says_what_is_wrong_with_a_body) {
  open();
  for (const auto& [body, words] : {std::pair<std::string, std::string>{"", "not JSON as in"},
                                    {"[1, 2]", "not JSON as in"},
                                    {R"({"examples": [[1, 2, 3]]})", "example 0 must be 4 numbers (4), it has 3"},
                                    {R"({"examples": [[1, 2, 3, 4], [1, "a", 3, 4]]})", "example 1 must be 4 numbers"},
                                    {R"({"examples": [[1, 2, 3, 4, 5]]})", "example 0 must be 4 numbers"},
                                    {R"({"examples": [[[[[[[[[1]]]]]]]]]})", "example 0 must be 4 numbers"},
                                    {std::string("\x89PNG\r\n\x1a\n", 8), "an image, but the net takes 4"},
                                    {std::string("\x93NUMPY", 6), "the body"}}) {
    const auto said = post("/predict", body);
    EXPECT_EQ(status_of(said), 400) << body;
    EXPECT_NE(nlohmann::json::parse(body_of(said))["error"].get<std::string>().find(words), std::string::npos) << said;
  }
  const auto top = post("/predict?top=x", R"({"examples": []})");
  EXPECT_EQ(status_of(top), 400);
  EXPECT_EQ(status_of(post("/predict", R"({"examples": []})")), 200);
}

TEST_F(predictions_over_http, several_nets_have_paths_of_their_own) {
  open({"a", "b-2"});
  EXPECT_EQ(status_of(post("/predict/a", R"({"examples": [[1, 0, 0, 2]]})")), 200);
  EXPECT_EQ(status_of(post("/predict/b-2", R"({"examples": [[1, 0, 0, 2]]})")), 200);
  const auto unnamed = post("/predict", R"({"examples": [[1, 0, 0, 2]]})");
  EXPECT_EQ(status_of(unnamed), 404);
  EXPECT_NE(unnamed.find("GET / lists the nets"), std::string::npos) << unnamed;
  const auto facts = nlohmann::json::parse(body_of(http_get(server_->port(), "/")));
  ASSERT_EQ(facts["nets"].size(), 2U);
  EXPECT_EQ(facts["nets"][0]["example"], nlohmann::json::parse("[4]"));
  EXPECT_EQ(facts["nets"][0]["requests"], 1);
}

TEST_F(predictions_over_http, refuses_names_that_are_no_part_of_a_path) {
  predict_server_options o;
  o.where = {"127.0.0.1", 0};
  const auto slash = predict_server::open({{"a/b", job_}}, o);
  ASSERT_FALSE(slash);
  EXPECT_EQ(slash.error().code, "bad_net");
  EXPECT_FALSE(predict_server::open({{"a", job_}, {"a", job_}}, o));
}

TEST_F(predictions_over_http, many_clients_get_their_own_answers) {
  open();
  std::vector<std::thread> clients;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 8; ++t)
    clients.emplace_back([&, t] {
      for (int k = 0; k < 20; ++k) {
        const auto x = 0.1F * static_cast<float>(t * 20 + k);
        const auto scores = scores_of(job_, {x, 1, -x, 0.5F});
        const auto best = std::max_element(scores.begin(), scores.end()) - scores.begin();
        const auto said = post("/predict", R"({"examples": [[)" + std::to_string(x) + ", 1, " + std::to_string(-x) + ", 0.5]]}");
        if (status_of(said) != 200 || nlohmann::json::parse(body_of(said))["predictions"][0]["class"] != best) ++wrong;
      }
    });
  for (auto& c : clients) c.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(predictions_over_http, refuses_pages_of_other_sites) {
  open();
  const auto with_origin = [&](const std::string& origin) {
    const std::string body = R"({"examples": [[1, 0, 0, 2]]})";
    http_client c(server_->port());
    c.send("POST /predict HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nOrigin: " + origin +
           "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
    return status_of(c.response());
  };
  EXPECT_EQ(with_origin("http://127.0.0.1:8080"), 200);
  for (const auto* other : {"http://127.0.0.1:8081", "https://127.0.0.1:8080", "http://example.org", "null"})
    EXPECT_EQ(with_origin(other), 403) << other;
}

// A client that has gone before its answer costs nothing.
TEST_F(predictions_over_http, survives_clients_that_leave) {
  open();
  for (int k = 0; k < 50; ++k) {
    http_client c(server_->port());
    c.send("POST /predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 29\r\n\r\n{\"examples\": [[1, 0, 0, 2.5]]");
  }
  for (int k = 0; k < 50; ++k) {
    http_client c(server_->port());
    c.send("POST /predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 30\r\n\r\n{\"examples\": [[1, 0, 0, 2.5]]}");
  }
  EXPECT_EQ(status_of(post("/predict", R"({"examples": [[1, 0, 0, 2]]})")), 200);
}

}  // namespace
}  // namespace troupe
