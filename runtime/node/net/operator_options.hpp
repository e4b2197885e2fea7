// Options for a program that is not a node to connect to a daemon: a client certificate and a
// session name with a random word.
#pragma once

#include <filesystem>
#include <string>

#include "runtime/base/result.hpp"
#include "runtime/node/net/tcp_transport.hpp"

namespace troupe::net {

// `certificates` or its subfolder "client" contains ca.pem, client.pem and client.key. The session
// name begins with the certificate's common name. An empty `cluster` is read from the CA. Errors:
// those of read_certificate(), "name_mismatch".
expected<tcp_options, coded_error> operator_options(const std::filesystem::path& certificates, std::string cluster = {});

}  // namespace troupe::net
