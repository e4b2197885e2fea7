// Predictions over HTTP: POST /predict computes the examples in its body,
// batched with those of other clients (batcher.hpp).
//
//   GET  /          the nets: name, shapes, classes, counts (JSON)
//   POST /predict   of the only net; POST /predict/NAME of one of several. Options of the query:
//                   top=K classes (1), all=1 every output, raw=1 floats are scaled too, resize=1
//                   images of other sizes are resized
//   -> {"predictions": [{"class": 3, "name": "coat", "probability": 0.98, "top": [...]}]}
//
// 400: a body that cannot be used, with {"error": TEXT}; 503: too many requests wait.
// Threads: those of the server and of each net, and two that read bodies, so that a long body
// delays no other client. Errors: values.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/node/http/server.hpp"
#include "runtime/node/serving/batcher.hpp"
#include "runtime/node/serving/request_body.hpp"

namespace troupe {

struct served_net {
  std::string name;                         // in the path; letters, digits, '-', '_' and '.'
  std::shared_ptr<const prepared_job> job;  // with its weights
};

struct predict_server_options {
  net::address where;  // port 0: any free port
  std::filesystem::path certificate, key;
  std::string token;  // as in http::server_options
  unsigned threads = 1;
  batcher_options batching;
  std::size_t most_body = std::size_t{64} << 20;
  std::int64_t resized_pixels = most_request_pixels;  // of the images of one request together
  std::function<void(const std::string& line)> log;   // may be empty
};

class predict_server {
 public:
  // Errors: those of http::server::open, and "bad_net".
  static expected<std::unique_ptr<predict_server>, coded_error> open(std::vector<served_net> nets, const predict_server_options& o);
  ~predict_server();
  predict_server(const predict_server&) = delete;
  predict_server& operator=(const predict_server&) = delete;

  std::string url() const;  // "http://127.0.0.1:8080/predict"
  std::uint16_t port() const;
  // As http::server::reload_certificates().
  expected<void, coded_error> reload_certificates();

 private:
  struct impl;
  explicit predict_server(std::unique_ptr<impl> i);
  std::unique_ptr<impl> impl_;
};

// The examples of a request: of its body (request_body.hpp), or of the files of a form
// (form_data.hpp), `curl -F file=@picture.jpg`, each of which is such a body. The other fields of a
// form are ignored.

// `type`: the Content-Type of the request. The others: as for examples_of_body().
expected<request_examples> examples_of_request(const std::string& body, const std::string& type, const prepared_job& j,
                                               const body_options& o, std::int64_t most);

}  // namespace troupe
