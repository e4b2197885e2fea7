#include "runtime/node/machine/facts_json.hpp"

#include <nlohmann/json.hpp>

namespace troupe::machine {

// Define to_json and from_json, which nlohmann finds by their argument.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(processor, name, cores, installed, quota, extensions, kernels, blas, blas_kernel,
                                                blas_threading, coretype)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(speed, skipped, threads, instructions, peak_one, peak_all, sgemm_one, sgemm_all,
                                                memory_rate)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(memory, total, free, bound_by, swap_total, swap_used, overcommit)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(clock, source, reading, known, synchronised, time)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(folder, purpose, path, problem, total, free, write_rate, sync)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(limits, open_files, most_open_files, locked_memory, core_file)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(certificate, name, folder, code, problem, days)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(interface, name, addresses, megabits, loopback)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(gpu, name, failure)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(facts, version, processor, speed, memory, clock, folders, limits, certificates,
                                                interfaces, address, data_address, gpus, why_no_gpu, nvidia_driver)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(link, from, to, problem, round_trip, rate, skipped, same_machine)

namespace {

template <class T>
std::string dumped(const T& x) {
  return nlohmann::json(x).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

template <class T>
expected<T> parsed(const std::string& text) {
  try {
    return nlohmann::json::parse(text).get<T>();
  } catch (const nlohmann::json::exception& e) {
    return unexpected(error(std::string("these are no facts about a machine: ") + e.what()));
  }
}

}  // namespace

std::string to_json(const facts& f) { return dumped(f); }
std::string to_json(const link& l) { return dumped(l); }
expected<facts> facts_of_json(const std::string& text) { return parsed<facts>(text); }
expected<link> link_of_json(const std::string& text) { return parsed<link>(text); }

}  // namespace troupe::machine
