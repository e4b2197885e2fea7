#include "runtime/node/net/operator_options.hpp"

#include <random>

#include "runtime/node/pki/certificates.hpp"

namespace troupe::net {

expected<tcp_options> operator_options(const std::filesystem::path& certificates, std::string cluster) {
  const auto dir = certificate_folder(certificates, client_name);
  tcp_options o;
  o.ca = dir / "ca.pem";
  o.certificate = dir / "client.pem";
  o.key = dir / "client.key";
  std::random_device random;
  o.node = std::string(client_name) + ".";
  for (int i = 0; i < 16; ++i) o.node += "0123456789abcdef"[random() % 16];
  if (cluster.empty()) {
    const auto ca = read_certificate(o.ca);
    if (!ca) return ca.error();
    cluster = ca->cluster;
  }
  o.cluster = std::move(cluster);
  return o;
}

}  // namespace troupe::net
