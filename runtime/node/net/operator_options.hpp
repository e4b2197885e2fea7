// How a program that is no node dials a daemon: with the operators' certificate, under a name of
// this session's own.
#pragma once

#include <filesystem>
#include <string>

#include "runtime/node/net/tcp_transport.hpp"

namespace troupe::net {

// `certificates`, or its folder "client", has ca.pem, client.pem and client.key; the certificate
// says who we are. An empty `cluster` is read from the CA. Errors: those of read_certificate().
expected<tcp_options> operator_options(const std::filesystem::path& certificates, std::string cluster = {});

}  // namespace troupe::net
