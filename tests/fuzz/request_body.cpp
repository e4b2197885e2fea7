// Fuzz target: bodies of POST /predict. The first byte selects the net, whether numbers are raw,
// whether images are resized, and whether the body is a form with such bodies.
#include "runtime/node/serving/predict_server.hpp"

#include "runtime/node/config/job_file.hpp"
#include "runtime/node/node_tables.hpp"
#include "tests/fuzz/target.hpp"
#include "tests/node/image_files.hpp"

namespace troupe::fuzz {
namespace {

constexpr std::int64_t most_examples = 16;

// A net of images, of numbers, or of ids.
std::shared_ptr<const source> facts(int which) {
  class body_facts final : public source {
   public:
    explicit body_facts(int kind) : kind_(kind) {}
    shape example() const override { return kind_ == 0 ? shape{3, 2, 4} : shape{6}; }
    std::int64_t classes() const override { return 3; }
    bool ids() const override { return kind_ == 2; }
    std::int64_t vocabulary() const override { return kind_ == 2 ? 50 : 0; }
    std::int64_t size(split) const override { return 1; }
    std::optional<byte_scaling> bytes() const override {
      if (kind_ > 0) return std::nullopt;
      return byte_scaling{{0.5, 1, 2}, {0, 1, 2}};
    }
    void read(split, const std::vector<std::int64_t>&, tensor&, tensor&) const override {}

   private:
    int kind_;
  };
  return std::make_shared<body_facts>(which);
}

std::shared_ptr<const prepared_job> job_of_bodies(int which) {
  const std::string words =
      "[[layer]]\nname = \"words\"\ntype = \"embedding\"\ninputs = [\"data\"]\nvocabulary = 50\noutputs = 2\n";
  const std::string net = "[job]\nname = \"b\"\n[data]\nsource = \"synthetic\"\nbatch = 1\n" +
                          (which == 2 ? words : std::string()) + "[[layer]]\nname = \"ip\"\ntype = \"linear\"\ninputs = [\"" +
                          (which == 2 ? "words" : "data") +
                          "\"]\noutputs = 3\n[[layer]]\nname = \"loss\"\ntype = \"softmax_loss\"\ninputs = [\"ip\", "
                          "\"label\"]\n[train]\nfinish = { steps = 1 }\n";
  const auto all = std::make_shared<const tables>(node_tables());
  auto spec = parse_job(net, "b.toml", *all);
  must(spec.has_value(), "the job of the target is refused");
  node_spec here;
  here.name = "local";
  auto made = prepare_job(*std::move(spec), all, {here}, facts(which));
  must(made.has_value(), "the job of the target cannot be prepared");
  return *made;
}

void read_request_body(input in) {
  static const std::shared_ptr<const prepared_job> jobs[] = {job_of_bodies(0), job_of_bodies(1), job_of_bodies(2)};
  reader r(in);
  const auto select = r.number(1);
  const auto& j = *jobs[select % 3];
  const std::string type = select / 12 % 2 == 1 ? "multipart/form-data; boundary=b" : "";
  const auto made = examples_of_request(text(r.rest()), type, j, {select / 3 % 2 == 1, select / 6 % 2 == 1}, most_examples);
  if (!made) return must(!made.error().text.empty(), "refused without a reason");
  must(made->n >= 0 && made->n <= most_examples, "more examples than allowed");
  must(static_cast<std::int64_t>(made->values.size()) == made->n * j.data->example().count(), "values without an example");
}

std::vector<std::string> sound_request_body() {
  const auto with = [](int select, const std::string& body) { return std::string(1, static_cast<char>(select)) + body; };
  std::string npy("\x93NUMPY\1\0\x46\0", 10);
  npy += "{'descr': '<i4', 'fortran_order': False, 'shape': (2, 6), }         \n";
  npy.resize(80, ' ');
  const std::string numbers(48, '\1');
  std::vector<std::string> all{with(1, "{\"examples\": [[1, 2, 3, 4.5, -6e2, 7], [0, 0, 0, 0, 0, 0]]}"),
                               with(4, "{\"examples\": [[[1, 2, 3], [4, 5, 6]]]}"),
                               with(2, "{\"examples\": [[1, 2, 3, 4, 5, 49]]}"),
                               with(0, "{\"examples\": []}"),
                               with(1, npy + numbers),
                               with(5, npy + numbers)};
  const auto pixels = image_test::picture(4, 2, 3, 1);
  const std::string part = "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n";
  all.push_back(with(13, part + "{\"examples\": [[1, 2, 3, 4, 5, 6]]}\r\n" + part + npy + numbers + "\r\n--b--\r\n"));
  for (const auto& image : {image_test::png_of(4, 2, pixels), image_test::jpeg_of(4, 2, pixels)})
    all.push_back(with(0, text(image)));
  return all;
}

const entry request_body_entry({"request_body", read_request_body, sound_request_body});

}  // namespace
}  // namespace troupe::fuzz
