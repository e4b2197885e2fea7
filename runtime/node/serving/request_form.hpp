// The examples of a request: of its body (request_body.hpp), or of the files of a form
// (form_data.hpp), `curl -F file=@picture.jpg`, each of which is such a body. The other fields of a
// form are ignored.
// Errors: values; those of a form name the file.  Threads: pure.
#pragma once

#include <string>

#include "runtime/node/serving/request_body.hpp"

namespace troupe {

// `type`: the Content-Type of the request. The others: as for examples_of_body().
expected<request_examples> examples_of_request(const std::string& body, const std::string& type, const prepared_job& j,
                                               const body_options& o, std::int64_t most);

}  // namespace troupe
