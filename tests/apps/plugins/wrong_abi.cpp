// A plugin with an ABI version that does not exist.
#include "runtime/job/plugin_abi.hpp"

std::uint32_t troupe_abi_version() { return 4000000000u; }
void register_plugin(troupe::tables&) {}
