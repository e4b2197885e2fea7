// Fuzz target: HDF5 files. Child processes read them, and any death of one is an error.
#include "runtime/node/formats/hdf5_dataset.hpp"
#include "tests/fuzz/as_file.hpp"
#include "tests/fuzz/target.hpp"
#include "tests/node/untrusted_hdf5_files.hpp"

namespace troupe::fuzz {
namespace {

void read_hdf5(input in) {
  constexpr std::uint64_t most = 1 << 16;
  const as_file file(in);
  const auto a = open_hdf5({file.path()}, "data", most);
  if (!a) return must(!a.error().text.empty(), "refused without a reason");
  must(a->rows() > 0 && a->row_count() > 0 && static_cast<std::uint64_t>(a->rows() * a->row_count()) <= most,
       "an array without numbers, or with more than it may have");
  const auto count = a->rows() * a->row_count();
  must(a->numbers(0, count).size() == static_cast<std::size_t>(count), "numbers are missing");
}

std::vector<std::string> sound_hdf5() { return {hdf5_test::contiguous(), hdf5_test::chunked(), hdf5_test::latest()}; }

// A child for each input takes milliseconds.
const entry hdf5_entry({"hdf5", read_hdf5, sound_hdf5, 100});

}  // namespace
}  // namespace troupe::fuzz
