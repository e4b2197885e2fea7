// Who may read a page of the server: bearer tokens, and names of this machine.
// Errors: values.  Threads: functions without state.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "runtime/base/result.hpp"
#include "runtime/node/net/transport.hpp"

namespace troupe::http {

inline constexpr std::size_t shortest_token = 16;

// Reads a token: the only line of a file that no other user may read (mode 0600), of at least
// `shortest_token` printable ASCII characters without spaces. Errors: "token_missing",
// "token_exposed", "bad_token".
expected<std::string, coded_error> read_token(const std::filesystem::path& file);

// The token for an address at which `what` is served ("n1: metrics_address"): that of `file`, or
// none on a loopback address. `key`: the key that names the file. Errors: those of read_token, and
// "insecure".
expected<std::string, coded_error> token_for(const net::address& where, const std::string& file, const std::string& what,
                                             const std::string& key);

// True if the value of an Authorization header is "Bearer " and `token`. Takes equally long for all
// values of one length.
bool bears(std::string_view authorization, std::string_view token);

// True if the value of a Host header is a numeric address, "localhost", or `own`, the name under
// which the server was told to listen; a port may follow. Names that others may choose are refused.
bool names_this_machine(std::string_view host, std::string_view own);

// True if the value of an Origin header is empty or that of a page of the server itself, which was
// asked for as `host` (the value of the Host header).
bool is_own_origin(std::string_view origin, std::string_view host, bool secure);

// PORT or HOST:PORT of a page that `what` serves ("metrics of a run"), on a loopback address.
// Errors: "bad_address", "not_loopback".
expected<net::address, coded_error> loopback_address(const std::string& where, const std::string& what);

// The value of `name` in a query or the body of a form (application/x-www-form-urlencoded). Empty
// if there is none.
std::string form_value(std::string_view text, std::string_view name);

// True for "localhost" and numeric addresses that only this machine reaches.
bool is_loopback(std::string_view host);

}  // namespace troupe::http
