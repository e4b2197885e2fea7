#include "runtime/node/net/operator_options.hpp"

#include <random>

#include "runtime/access/names.hpp"
#include "runtime/node/net/hello.hpp"
#include "runtime/node/pki/certificates.hpp"

namespace troupe::net {

expected<tcp_options, coded_error> operator_options(const std::filesystem::path& certificates, std::string cluster) {
  const auto dir = certificate_folder(certificates, client_name);
  tcp_options o;
  o.ca = dir / "ca.pem";
  o.certificate = dir / "client.pem";
  o.key = dir / "client.key";
  if (cluster.empty()) {
    const auto ca = read_certificate(o.ca);
    if (!ca) return unexpected(ca.error());
    cluster = ca->cluster;
  }
  const auto mine = read_certificate(o.certificate);
  if (!mine) return unexpected(mine.error());
  if (!is_operator(mine->name))
    return unexpected(coded_error{"name_mismatch", "[certificates] " + o.certificate.string() + " has the common name " +
                                                       mine->name + ", which is not a client's"});
  std::random_device random;
  o.node = mine->name + ".";
  for (int i = 0; i < 16; ++i) o.node += "0123456789abcdef"[random() % 16];
  o.cluster = std::move(cluster);
  return o;
}

}  // namespace troupe::net
