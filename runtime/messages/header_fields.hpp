// Which fields of struct header the messages of each type use. A field that a type does not use has
// its default value; the simulator checks every message that a role sends (sim/world.hpp). job,
// src, dst, incarnation, attempt and trace belong to all messages.
// Errors: none. Threads: functions without state.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>

#include "runtime/messages/message.hpp"

namespace troupe {

namespace header_field {
constexpr std::uint16_t id = 1, step = 2, version = 4, packet = 8, packets = 16, port = 32, phase = 64, flags = 128,
                        mode_epoch = 256;
constexpr std::array<std::pair<std::uint16_t, const char*>, 9> all{{{id, "id"},
                                                                    {step, "step"},
                                                                    {version, "version"},
                                                                    {packet, "packet"},
                                                                    {packets, "packets"},
                                                                    {port, "port"},
                                                                    {phase, "phase"},
                                                                    {flags, "flags"},
                                                                    {mode_epoch, "mode_epoch"}}};
}  // namespace header_field

// The fields that messages of this type use.
std::uint16_t header_fields_of(const message& m);
// The names of the other fields that are not at their default: "step, port"; empty if there are
// none.
std::string stray_header_fields(const envelope& e);

}  // namespace troupe
