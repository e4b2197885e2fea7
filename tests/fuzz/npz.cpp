// Fuzz target: archives of NumPy arrays (.npz). Half of them get the checksums that their arrays
// have.
#include <zlib.h>

#include "runtime/node/formats/numpy_array.hpp"
#include "tests/fuzz/as_file.hpp"
#include "tests/fuzz/target.hpp"

namespace troupe::fuzz {
namespace {

constexpr std::size_t local_head = 30, central_head = 46;

void put_le(std::string& to, std::size_t at, std::uint64_t v, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes && at + i < to.size(); ++i) to[at + i] = static_cast<char>(v >> (8 * i));
}
std::size_t number_le(const std::string& from, std::size_t at, std::size_t bytes) {
  std::size_t v = 0;
  for (std::size_t i = 0; i < bytes && at + i < from.size(); ++i)
    v |= std::size_t{static_cast<std::uint8_t>(from[at + i])} << (8 * i);
  return v;
}

// Sets the checksums of the stored members.
void repair_zip(std::string& zip) {
  for (auto at = zip.find("PK\1\2"); at != std::string::npos; at = zip.find("PK\1\2", at + 4)) {
    const auto local = number_le(zip, at + 42, 4), bytes = number_le(zip, at + 24, 4);
    const auto from = local + local_head + number_le(zip, local + 26, 2) + number_le(zip, local + 28, 2);
    if (number_le(zip, at + 10, 2) != 0 || from > zip.size() || bytes > zip.size() - from) continue;
    const auto crc = ::crc32(0, reinterpret_cast<const Bytef*>(zip.data()) + from, static_cast<uInt>(bytes));
    put_le(zip, at + 16, crc, 4);
    put_le(zip, local + 14, crc, 4);
  }
}

void read_npz(input in) {
  reader r(in);
  const bool right = (r.number(1) & 1) != 0;
  auto zip = text(r.rest());
  if (right) repair_zip(zip);
  const as_file file({reinterpret_cast<const std::uint8_t*>(zip.data()), zip.size()});
  const auto a = open_numpy(file.path(), "x", 1 << 20);
  if (!a) return must(!a.error().text.empty(), "refused without a reason");
  must(a->rows() > 0 && a->row_count() > 0, "an array without numbers");
  must(static_cast<std::uint64_t>(a->rows() * a->row_count()) <= 1 << 20, "more numbers than bytes");
  const auto count = a->rows() * a->row_count();
  must(a->numbers(0, count).size() == static_cast<std::size_t>(count), "numbers are missing");
}

// An archive with one member x.npy, as Python's zipfile writes it.
std::string zip_of(const std::string& array, bool deflated) {
  std::string packed = array;
  if (deflated) {
    packed.resize(array.size() + 100);
    z_stream z{};
    must(deflateInit2(&z, 9, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY) == Z_OK, "no zlib");
    z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(array.data())), z.avail_in = static_cast<uInt>(array.size());
    z.next_out = reinterpret_cast<Bytef*>(packed.data()), z.avail_out = static_cast<uInt>(packed.size());
    deflate(&z, Z_FINISH);
    packed.resize(z.total_out);
    deflateEnd(&z);
  }
  const std::string name = "x.npy";
  const auto crc = ::crc32(0, reinterpret_cast<const Bytef*>(array.data()), static_cast<uInt>(array.size()));
  // `at`: of the version; the fields up to the name's length are the same in both heads.
  const auto common = [&](std::string& head, std::size_t at) {
    put_le(head, at, 20, 2);
    put_le(head, at + 4, deflated ? 8 : 0, 2);
    put_le(head, at + 10, crc, 4);
    put_le(head, at + 14, packed.size(), 4);
    put_le(head, at + 18, array.size(), 4);
    put_le(head, at + 22, name.size(), 2);
  };
  std::string local(local_head, '\0'), central(central_head, '\0'), end(22, '\0');
  local.replace(0, 4, "PK\3\4");
  common(local, 4);
  central.replace(0, 4, "PK\1\2");
  common(central, 6);
  end.replace(0, 4, "PK\5\6");
  put_le(end, 8, 1, 2);
  put_le(end, 10, 1, 2);
  put_le(end, 12, central.size() + name.size(), 4);
  put_le(end, 16, local.size() + name.size() + packed.size(), 4);
  return local + name + packed + central + name + end;
}

std::vector<std::string> sound_npz() {
  const std::string dictionary = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n";
  const auto array =
      std::string("\x93NUMPY\1\0", 8) + static_cast<char>(dictionary.size()) + '\0' + dictionary + std::string(24, '\x3f');
  return {"\1" + zip_of(array, false), std::string(1, '\0') + zip_of(array, false), "\1" + zip_of(array, true)};
}

const entry npz_entry({"npz", read_npz, sound_npz});

}  // namespace
}  // namespace troupe::fuzz
