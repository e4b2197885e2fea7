#include "runtime/cluster/job_folder_names.hpp"

#include <algorithm>

#include "runtime/cluster/admission.hpp"
#include "runtime/record/checkpoint_home.hpp"

namespace troupe::control {
namespace {

bool digits(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

std::string safe_job_name(const std::string& name) { return path_word(name); }

std::string job_folder_name(std::uint32_t job, const std::string& name) {
  return "job-" + std::to_string(number_of(job)) + "-" + safe_job_name(name) + "-" + std::to_string(job >> 16);
}

bool is_job_folder_name(const std::string& name) {
  if (!name.starts_with("job-")) return false;
  const auto first = name.find('-', 4), last = name.rfind('-');
  return first != std::string::npos && last > first && digits(name.substr(4, first - 4)) && digits(name.substr(last + 1));
}

std::string job_name_of_folder(const std::string& name) {
  if (!is_job_folder_name(name)) return {};
  const auto first = name.find('-', 4), last = name.rfind('-');
  return name.substr(first + 1, last - first - 1);
}

}  // namespace troupe::control
