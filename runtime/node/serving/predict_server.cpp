#include "runtime/node/serving/predict_server.hpp"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "runtime/base/wording.hpp"
#include "runtime/node/http/access.hpp"
#include "runtime/node/serving/body_readers.hpp"
#include "runtime/node/serving/form_data.hpp"

namespace troupe {
namespace {

using json = nlohmann::ordered_json;

constexpr const char* json_type = "application/json; charset=utf-8";
constexpr std::int64_t most_top = 1000;

http::response json_answer(unsigned status, const json& o) {
  return {status, json_type, o.dump(-1, ' ', false, json::error_handler_t::replace) + "\n"};
}
http::response refused(unsigned status, const std::string& why) { return json_answer(status, {{"error", why}}); }

// What a request wants to know.
struct wish {
  std::int64_t top = 1;
  bool all = false;
  body_options body;
};

expected<wish> wish_of(const std::string& query) {
  wish w;
  w.all = http::form_value(query, "all") == "1";
  w.body.raw = http::form_value(query, "raw") == "1";
  w.body.resize = http::form_value(query, "resize") == "1";
  if (const auto text = http::form_value(query, "top"); !text.empty()) {
    const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), w.top);
    if (ec != std::errc() || end != text.data() + text.size() || w.top < 1 || w.top > most_top)
      return unexpected(error("top must be a number from 1 to " + std::to_string(most_top) + ", not '" + text + "'"));
  }
  return w;
}

// A net with its threads.
struct serving_net {
  std::string name;
  std::shared_ptr<const prepared_job> job;
  std::unique_ptr<net_runner> runner;
  std::unique_ptr<batcher> queue;
  std::vector<std::string> class_names;

  bool has_names() const { return !class_names.empty() && static_cast<std::int64_t>(class_names.size()) == runner->classes(); }

  json facts() const {
    const auto c = queue->counts();
    auto extents = json::array();
    for (int i = 0; i < runner->example().rank(); ++i) extents.push_back(runner->example()[i]);
    json o{{"name", name},
           {"example", extents},
           {"classes", runner->classes()},
           {"positions", runner->positions()},
           {"width", runner->width()},
           {"requests", c.requests},
           {"examples", c.examples},
           {"passes", c.passes},
           {"refused", c.refused}};
    if (has_names()) o["class_names"] = class_names;
    if (extents.size() == 3 && extents[0] == 3) o["channel_order"] = name_of(job->data->picture_order());
    return o;
  }

  json one_class(const std::vector<double>& v, std::int64_t k) const {
    const char* value = runner->meaning() == answer::scores ? "score" : "probability";
    if (k < 0) return {{"class", nullptr}, {value, nullptr}};  // a NaN
    json o{{"class", k}};
    if (has_names()) o["name"] = class_names[static_cast<std::size_t>(k)];
    o[value] = v[static_cast<std::size_t>(k)];
    return o;
  }

  json prediction(const float* x, const wish& w) const {
    std::vector<double> v(x, x + runner->width());
    if (runner->classes() == 0) return {{"outputs", v}};
    v = by_class(runner->meaning(), std::move(v));
    const auto best = best_classes(v, static_cast<std::size_t>(w.top));
    auto o = one_class(v, best[0]);
    if (best.size() > 1) {
      o["top"] = json::array();
      for (const auto k : best) o["top"].push_back(one_class(v, k));
    }
    if (w.all) o["outputs"] = v;
    return o;
  }

  json predictions(const std::vector<float>& out, const wish& w) const {
    auto list = json::array();
    const auto width = static_cast<std::size_t>(runner->width()), positions = static_cast<std::size_t>(runner->positions());
    for (std::size_t at = 0; at < out.size(); at += width * positions) {
      if (positions == 1) {
        list.push_back(prediction(out.data() + at, w));
        continue;
      }
      auto sequence = json::array();
      for (std::size_t p = 0; p < positions; ++p) sequence.push_back(prediction(out.data() + at + p * width, w));
      list.push_back(std::move(sequence));
    }
    return {{"predictions", std::move(list)}};
  }
};

using replier = std::function<void(http::response&&)>;

// What a request may have.
struct request_limits {
  std::int64_t examples, resized_pixels;
};

void handle(const serving_net& net, http::request&& r, const request_limits& most, const replier& reply) {
  auto asked = wish_of(r.query);
  if (!asked) return reply(refused(400, asked.error().text));
  asked->body.pixels = most.resized_pixels;
  auto examples = examples_of_request(r.body, r.type, *net.job, asked->body, most.examples);
  std::string().swap(r.body);
  if (!examples) return reply(refused(400, examples.error().text));
  if (examples->n == 0) return reply(json_answer(200, net.predictions({}, *asked)));
  const auto done = [&net, w = *asked, reply](batcher::outputs&& out) {
    reply(out ? json_answer(200, net.predictions(*out, w)) : refused(500, out.error().text));
  };
  if (!net.queue->submit(std::move(examples->values), examples->n, done)) reply(refused(503, "too many requests wait; try again"));
}

bool good_name(const std::string& name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
  });
}

}  // namespace

struct predict_server::impl {
  std::vector<std::shared_ptr<void>> keep;  // the nets
  std::vector<std::function<void()>> end;   // ends the batchers, before the server
  body_readers readers{2};                  // one body of 64 MiB takes a second
  std::unique_ptr<http::server> server;
  ~impl() {  // the server object lives until nothing can reply any more
    if (server) server->stop();
    readers.end();
    for (auto& e : end) e();
  }
};

predict_server::predict_server(std::unique_ptr<impl> i) : impl_(std::move(i)) {}
predict_server::~predict_server() = default;

expected<std::unique_ptr<predict_server>, coded_error> predict_server::open(std::vector<served_net> nets,
                                                                            const predict_server_options& o) {
  auto made = std::make_unique<impl>();
  http::server_options h;
  h.where = o.where, h.certificate = o.certificate, h.key = o.key, h.token = o.token, h.log = o.log;
  h.limits.max_body = o.most_body;
  h.not_found = "there is no such page or net; GET / lists the nets, POST /predict/NAME asks one";
  h.limits.max_connections = 1024;
  auto all = std::make_shared<std::vector<std::shared_ptr<serving_net>>>();
  for (auto& n : nets) {
    if (!good_name(n.name))
      return unexpected(coded_error{"bad_net", "a net's name has letters, digits, '-', '_' and '.': " + n.name});
    auto runner = net_runner::make(n.job, {}, o.threads);
    if (!runner) return unexpected(coded_error{"bad_net", runner.error().to_string()});
    auto s = std::make_shared<serving_net>(serving_net{n.name, n.job, *std::move(runner), nullptr, n.job->data->class_names()});
    s->queue = std::make_unique<batcher>(*s->runner, o.batching);
    const auto each = static_cast<std::size_t>(s->runner->example().count()) * sizeof(float);
    const request_limits most{most_waiting_examples(o.batching, each), o.resized_pixels};
    const auto later = [net = s.get(), most, pool = &made->readers](http::request&& r, const replier& reply) {
      pool->add([net, most, r = std::make_shared<http::request>(std::move(r)), reply] {
        try {
          handle(*net, std::move(*r), most, reply);
        } catch (const std::exception& e) {  // no memory
          reply(refused(500, e.what()));
        }
      });
    };
    if (!h.later.emplace("/predict/" + n.name, later).second)
      return unexpected(coded_error{"bad_net", "two nets have the name '" + n.name + "'"});
    if (nets.size() == 1) h.later["/predict"] = later;
    made->end.emplace_back([s] { s->queue.reset(); });
    made->keep.push_back(s);
    all->push_back(std::move(s));
  }
  h.routes["/"] = [all](const http::request&) {
    auto list = json::array();
    for (const auto& s : *all) list.push_back(s->facts());
    return json_answer(200, {{"nets", std::move(list)}});
  };
  auto server = http::server::open(std::move(h));
  if (!server) return unexpected(server.error());
  made->server = *std::move(server);
  return std::unique_ptr<predict_server>(new predict_server(std::move(made)));
}

std::string predict_server::url() const { return impl_->server->url("/predict"); }
expected<void, coded_error> predict_server::reload_certificates() { return impl_->server->reload_certificates(); }
std::uint16_t predict_server::port() const { return impl_->server->port(); }

expected<request_examples> examples_of_request(const std::string& body, const std::string& type, const prepared_job& j,
                                               const body_options& o, std::int64_t most) {
  if (!is_form_data(type)) return examples_of_body(body, j, o, most);
  const auto parts = form_parts(body, type);
  if (!parts) return unexpected(parts.error());
  request_examples all;
  bool files = false;
  for (const auto& p : *parts) {
    if (!p.is_file) continue;
    files = true;
    auto one = examples_of_body(p.content, j, o, most, all.pixels);
    if (!one) return unexpected(one.error().in(in_quotes(p.file)));
    all.n += one->n;
    all.pixels += one->pixels;
    if (all.n > most) return unexpected(error("a request has at most " + std::to_string(most) + " examples, this one has more"));
    if (all.values.empty())
      all.values = std::move(one->values);
    else
      all.values.insert(all.values.end(), one->values.begin(), one->values.end());
  }
  if (!files) return unexpected(error("the form has no file; send one as in: curl -F file=@picture.jpg"));
  return all;
}

}  // namespace troupe
