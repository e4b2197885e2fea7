#include "runtime/node/formats/lmdb_records.hpp"

#include <lmdb.h>
#include <sys/stat.h>

#include <utility>

namespace troupe {

struct lmdb_records::handles {
  ~handles() {
    if (txn) mdb_txn_abort(txn);
    if (env) mdb_env_close(env);
  }
  MDB_env* env = nullptr;
  MDB_txn* txn = nullptr;
};

lmdb_records::lmdb_records(std::string path) : path_(std::move(path)) {}
lmdb_records::~lmdb_records() = default;

expected<std::shared_ptr<const lmdb_records>> lmdb_records::open(const std::string& path) {
  const auto failed = [&](int code) { return unexpected(error(std::string("LMDB: ") + mdb_strerror(code)).in(path)); };
  struct stat facts {};
  if (::stat(path.c_str(), &facts) != 0) return unexpected(error("there is no such folder or file").in(path));
  auto h = std::make_unique<handles>();
  if (const int code = mdb_env_create(&h->env)) return failed(code);
  const unsigned file = S_ISDIR(facts.st_mode) ? 0 : MDB_NOSUBDIR;
  if (const int code = mdb_env_open(h->env, path.c_str(), MDB_RDONLY | MDB_NOLOCK | MDB_NOTLS | file, 0)) return failed(code);
  if (const int code = mdb_txn_begin(h->env, nullptr, MDB_RDONLY, &h->txn)) return failed(code);
  MDB_dbi db = 0;
  if (const int code = mdb_dbi_open(h->txn, nullptr, 0, &db)) return failed(code);
  MDB_cursor* at = nullptr;
  if (const int code = mdb_cursor_open(h->txn, db, &at)) return failed(code);
  const std::unique_ptr<MDB_cursor, void (*)(MDB_cursor*)> cursor(at, mdb_cursor_close);
  std::shared_ptr<lmdb_records> all(new lmdb_records(path));
  MDB_val key, value;
  int code = mdb_cursor_get(at, &key, &value, MDB_FIRST);
  for (; code == 0; code = mdb_cursor_get(at, &key, &value, MDB_NEXT))
    all->records_.emplace_back(static_cast<const std::uint8_t*>(value.mv_data), value.mv_size);
  if (code != MDB_NOTFOUND) return failed(code);
  if (all->records_.empty()) return unexpected(error("the database has no records").in(path));
  all->handles_ = std::move(h);
  return all;
}

}  // namespace troupe
