#include "runtime/node/http/sessions.hpp"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <string_view>

#include "runtime/node/http/access.hpp"

namespace troupe::http {
namespace {

constexpr const char* form_style =
    "body{margin:0;min-height:100vh;display:flex;align-items:center;justify-content:center;background:#f6f7f9;color:#1a2029;"
    "font:15px/1.5 system-ui,sans-serif}main{width:min(26rem,100% - 2rem)}h1{font-size:1.2rem;margin:0 0 .25rem}p{margin:0 0 1rem;"
    "color:#55606e}label{display:block;font-weight:600;margin:0 0 "
    ".25rem}input,button{box-sizing:border-box;width:100%;padding:.6rem;"
    "font:inherit;border-radius:4px;border:1px solid #8a94a3;background:#fff;color:inherit}button{margin-top:.75rem;border:0;"
    "background:#0b5fa5;color:#fff;font-weight:600;cursor:pointer}[role=alert]{color:#a11616;font-weight:600}"
    "@media(prefers-color-scheme:dark){body{background:#12161c;color:#e6eaf0}p{color:#a3aebd}input{background:#1b212a;"
    "border-color:#5a6675}[role=alert]{color:#ff9b93}}";

std::string hex_of(const unsigned char* bytes, std::size_t n) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string text;
  for (std::size_t i = 0; i < n; ++i) (text += digits[bytes[i] >> 4]) += digits[bytes[i] & 15];
  return text;
}

std::string random_hex(std::size_t n) {
  std::string bytes(n, '\0');
  auto* data = reinterpret_cast<unsigned char*>(bytes.data());
  return RAND_bytes(data, static_cast<int>(n)) == 1 ? hex_of(data, n) : std::string();
}

bool equal(std::string_view a, std::string_view b) {  // in a time that depends only on the lengths
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

// The value of a cookie in the header of a request.
std::string_view cookie_in(std::string_view header, std::string_view name) {
  while (!header.empty()) {
    const auto end = std::min(header.find(';'), header.size());
    auto pair = header.substr(0, end);
    header.remove_prefix(std::min(end + 1, header.size()));
    while (pair.starts_with(' ')) pair.remove_prefix(1);
    if (pair.size() > name.size() && pair[name.size()] == '=' && pair.starts_with(name)) return pair.substr(name.size() + 1);
  }
  return {};
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '<' ? "&lt;" : c == '&' ? "&amp;" : c == '"' ? "&quot;" : std::string(1, c);
  return out;
}

bool logs_in(const request& r) { return r.method == "POST" && r.path == "/login"; }

}  // namespace

expected<std::string, coded_error> page_token(const std::filesystem::path& file) {
  const int fd = ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd >= 0) {
    const auto text = random_hex(32) + "\n";
    const bool whole = text.size() > 1 && ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
    ::close(fd);
    if (!whole) {
      ::unlink(file.c_str());
      return unexpected(coded_error{"token_unwritable", "cannot write the page's token to " + file.string()});
    }
  } else if (errno != EEXIST) {
    return unexpected(coded_error{"token_unwritable", "cannot create " + file.string() + ": " + std::strerror(errno)});
  }
  auto token = read_token(file);
  if (token && token->size() < shortest_page_token)
    return unexpected(coded_error{"bad_token", "the token in " + file.string() + " is too short: a page's token has at least " +
                                                   std::to_string(shortest_page_token) +
                                                   " characters; delete the file, and a new one is made"});
  return token;
}

sessions::sessions(std::string token, std::string host, std::string title)
    : token_(std::move(token)), host_(std::move(host)), title_(std::move(title)) {
  name_ = "troupe-" + made(0, "name").substr(7, 8);
}

std::string sessions::made(clock expiry, const std::string& nonce) const {
  const auto claim = std::to_string(expiry) + "." + nonce;
  const auto text = "session " + claim;
  unsigned char mac[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  HMAC(EVP_sha256(), token_.data(), static_cast<int>(token_.size()), reinterpret_cast<const unsigned char*>(text.data()),
       text.size(), mac, &size);
  return claim + "." + hex_of(mac, size);
}

bool sessions::has_session(const request& r, clock now) const {
  const auto value = cookie_in(r.cookie, name_);
  const auto first = value.find('.'), second = value.rfind('.');
  if (first == std::string_view::npos || second <= first) return false;
  clock expiry = 0;
  const auto [end, ec] = std::from_chars(value.data(), value.data() + first, expiry);
  if (ec != std::errc() || end != value.data() + first || expiry <= now || expiry > now + lifetime) return false;
  return equal(value, made(expiry, std::string(value.substr(first + 1, second - first - 1))));
}

std::optional<response> sessions::refusal(const request& r, clock now) const {
  const auto forbidden = [](const char* why) { return response{403, "text/plain; charset=utf-8", std::string(why) + "\n"}; };
  if (!names_this_machine(r.host, host_)) return forbidden("the request's Host is not a name of this machine");
  if (!is_own_origin(r.origin, r.host, r.secure)) return forbidden("the request comes from another site");
  if (logs_in(r) || bears(r.authorization, token_)) return std::nullopt;
  if (!has_session(r, now)) return form(401, {});
  if (r.origin.empty() && (r.opens_socket || r.method == "POST")) return forbidden("the request has no Origin");
  return std::nullopt;
}

response sessions::log_in(const request& r, clock now) {
  auto given = form_value(r.body, "token");
  std::erase_if(given, [](char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; });
  if (!equal(given, token_)) return wrong_token(now);
  const auto nonce = random_hex(16);
  if (nonce.empty()) return form(500, "No session could be made.");
  response done{303, "text/plain; charset=utf-8", "logged in\n"};
  done.headers = {{"Location", "/"}, {"Set-Cookie", cookie(r, made(now + lifetime, nonce), lifetime)}};
  return done;
}

// All users of a machine share its loopback address, so that wrong tokens of one user cannot be
// told from those of another: they never refuse the right token.
response sessions::wrong_token(clock now) {
  while (!failures_.empty() && failures_.front() <= now - 60) failures_.pop_front();
  if (failures_.size() >= max_failures) return form(429, "This is not the token, and many wrong ones came within a minute.");
  failures_.push_back(now);
  return form(401, "This is not the token.");
}

response sessions::log_out(const request& r) const {
  response done{303, "text/plain; charset=utf-8", "logged out\n"};
  done.headers = {{"Location", "/"}, {"Set-Cookie", cookie(r, "", 0)}};
  return done;
}

std::string sessions::cookie(const request& r, const std::string& value, clock age) const {
  return name_ + "=" + value + "; Max-Age=" + std::to_string(age) + "; Path=/; HttpOnly; SameSite=Strict" +
         (r.secure ? "; Secure" : "");
}

response sessions::form(unsigned status, const std::string& note) const {
  const auto title = escaped(title_);
  response page{status, "text/html; charset=utf-8", {}};
  page.body =
      "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width,initial-scale=1\"><title>Log in: " +
      title + "</title><style>" + form_style + "</style></head><body><main><h1>" + title +
      "</h1><p>The token is in a file, whose path was printed when this page was opened.</p>"
      "<form method=\"post\" action=\"/login\">" +
      (note.empty() ? "" : "<p role=\"alert\">" + note + "</p>") +
      "<label for=\"token\">Token</label><input id=\"token\" name=\"token\" type=\"password\" autocomplete=\"current-password\" "
      "required autofocus><button>Log in</button></form></main></body></html>\n";
  return page;
}

const std::string& sessions::content_policy() {
  static const std::string policy = [] {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned size = 0;
    EVP_Digest(form_style, std::strlen(form_style), digest, &size, EVP_sha256(), nullptr);
    unsigned char base64[2 * EVP_MAX_MD_SIZE];
    const auto n = EVP_EncodeBlock(base64, digest, static_cast<int>(size));
    return "default-src 'self'; style-src 'self' 'sha256-" +
           std::string(reinterpret_cast<const char*>(base64), static_cast<std::size_t>(n)) +
           "'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'; object-src 'none'";
  }();
  return policy;
}

}  // namespace troupe::http
