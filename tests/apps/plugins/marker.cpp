// Plugin without entries that leaves a mark when it is loaded: it creates the file that
// $TROUPE_TEST_MARKER names.
#include <cstdlib>
#include <fstream>

#include "runtime/job/plugin_abi.hpp"

namespace {

const bool marked = [] {
  const char* file = std::getenv("TROUPE_TEST_MARKER");
  if (file != nullptr) std::ofstream(file) << "loaded\n";
  return file != nullptr;
}();

}  // namespace

std::uint32_t troupe_abi_version() { return troupe::abi_version; }

void register_plugin(troupe::tables&) { static_cast<void>(marked); }
