// A tool in C, bound to the contract by hand: what the component model lays out in memory are plain C structures.
// Runs inside the sandbox; needs no library.

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define IMPORT(interface, function) \
  __attribute__((import_module("zeroclaw:plugin/" interface "@0.1.0"), import_name(function)))
#define EXPORT(interface, function) __attribute__((export_name("zeroclaw:plugin/" interface "@0.1.0#" function)))

typedef struct { const char *at; size_t size; } text;
#define TEXT(literal) ((text){literal, sizeof(literal) - 1})

typedef struct { bool is_err; union { text ok; uint8_t err; }; } secret_result;
typedef struct { const uint8_t *at; size_t size; uint64_t revision; } state_entry;
typedef struct { bool is_some; state_entry some; } optional_entry;
typedef struct { bool is_err; union { optional_entry ok; uint8_t err; }; } get_result;
typedef struct { bool is_err; union { uint64_t ok; uint8_t err; }; } put_result;
typedef struct { bool is_err; uint8_t err; } delete_result;
typedef struct { bool success; text output; struct { bool is_some; text some; } error; } tool_result;
typedef struct { bool is_err; union { tool_result ok; text err; }; } execute_result;

_Static_assert(sizeof(get_result) == 32 && offsetof(get_result, ok.some.revision) == 24, "as the contract lays it out");
_Static_assert(sizeof(execute_result) == 28 && offsetof(execute_result, ok.error) == 16, "as the contract lays it out");

IMPORT("secrets", "get") void secrets_get(const char *, size_t, secret_result *);
IMPORT("state", "get") void state_get(const char *, size_t, get_result *);
IMPORT("state", "put") void state_put(const char *, size_t, const void *, size_t, int, uint64_t, put_result *);
IMPORT("state", "delete") void state_delete(const char *, size_t, uint64_t, delete_result *);
IMPORT("logging", "log-record") void log_record(
    int level, const char *, size_t, int action, int has_outcome, int outcome, int has_duration, uint64_t duration,
    int has_attributes, const char *, size_t, const char *, size_t);

// --- memory -----------------------------------------------------------------------------------------------------------

extern unsigned char __heap_base;
static uintptr_t heap;

__attribute__((export_name("cabi_realloc"))) void *cabi_realloc(void *old, size_t old_size, size_t align, size_t size) {
  if (!heap) heap = (uintptr_t)&__heap_base;
  uintptr_t at = (heap + align - 1) & ~(uintptr_t)(align - 1);
  heap = at + size;
  size_t pages = __builtin_wasm_memory_size(0);
  if (heap > pages * 65536 && __builtin_wasm_memory_grow(0, (heap - pages * 65536 + 65535) / 65536) == (size_t)-1)
    __builtin_trap();
  for (size_t n = 0; n < old_size && n < size; n++) ((char *)at)[n] = ((char *)old)[n];
  return (void *)at;
}

// --- words ------------------------------------------------------------------------------------------------------------

static char line[512];
static size_t used;

static void say(const char *at, size_t size) {
  for (size_t n = 0; n < size && used < sizeof line; n++) line[used++] = at[n];
}

static void next(void) { if (used) say(" ", 1); }

static void number(uint64_t value) {
  char digits[20];
  int many = 0;
  do { digits[many++] = '0' + value % 10; value /= 10; } while (value);
  while (many) say(&digits[--many], 1);
}

static const char *const STATE_ERRORS[] = {
    "invalid-key", "access-denied", "not-found", "conflict", "quota-exceeded", "unavailable"};
static const char *const SECRET_ERRORS[] = {"access-denied", "not-found", "unavailable"};

static void word(const char *at) { while (*at) say(at++, 1); }

static void tell_put(const char *key, size_t size, const uint8_t *data, int has, uint64_t expected, uint64_t *revision) {
  put_result found;
  state_put(key, size, data, 256, has, expected, &found);
  next();
  if (found.is_err) word(STATE_ERRORS[found.err]);
  else number(*revision = found.ok);
}

static void tell_get(const char *key, size_t size) {
  get_result found;
  state_get(key, size, &found);
  next();
  if (found.is_err) { word(STATE_ERRORS[found.err]); return; }
  if (!found.ok.is_some) { word("none"); return; }
  uint64_t sum = 0;
  for (size_t n = 0; n < found.ok.some.size; n++) sum += found.ok.some.at[n];
  number(found.ok.some.size); word(":"); number(sum); word(":"); number(found.ok.some.revision);
}

static void tell_secret(text name) {
  secret_result found;
  secrets_get(name.at, name.size, &found);
  next();
  if (found.is_err) word(SECRET_ERRORS[found.err]);
  else say(found.ok.at, found.ok.size);
}

// --- the tool ---------------------------------------------------------------------------------------------------------

static text told;
static text *tell(text found) { told = found; return &told; }

EXPORT("plugin-info", "plugin-name") text *plugin_name(void) { return tell(TEXT("trip")); }
EXPORT("plugin-info", "plugin-version") text *plugin_version(void) { return tell(TEXT("1.0.0")); }
EXPORT("tool", "name") text *name(void) { return tell(TEXT("trip")); }
EXPORT("tool", "description") text *description(void) { return tell(TEXT("Goes there and back.")); }
EXPORT("tool", "parameters-schema") text *schema(void) { return tell(TEXT("{\"type\": \"object\"}")); }

static bool holds(text whole, text part) {
  for (size_t from = 0; from + part.size <= whole.size; from++) {
    size_t n = 0;
    while (n < part.size && whole.at[from + n] == part.at[n]) n++;
    if (n == part.size) return true;
  }
  return false;
}

static void trip(void) {
  uint8_t data[256];
  for (int n = 0; n < 256; n++) data[n] = n;
  uint64_t revision = 0;
  text function = TEXT("execute"), attributes = TEXT("{\"n\":1}"), message = TEXT("gr\u00fc\u00df \u2603 \U0001f600");
  log_record(4, function.at, function.size, 37, 1, 1, 1, (UINT64_C(1) << 53) - 1, 1, attributes.at, attributes.size, message.at,
             message.size);
  used = 0;
  tell_get("k", 1);
  tell_put("k", 1, data, 0, 0, &revision);
  tell_put("k", 1, data, 0, 0, &revision);
  tell_get("k", 1);
  tell_put("k", 1, data, 1, revision, &revision);
  delete_result deleted;
  state_delete("k", 1, revision, &deleted);
  next();
  word(deleted.is_err ? STATE_ERRORS[deleted.err] : "ok");
  tell_get("k", 1);
  tell_get("no key", 6);
  tell_secret(TEXT("token"));
  tell_secret(TEXT("missing"));
}

EXPORT("tool", "execute") execute_result *execute(const char *at, size_t size) {
  static execute_result answer;
  text arguments = {at, size};
  answer = (execute_result){0};
  if (holds(arguments, TEXT("fail"))) {
    answer.is_err = true;
    answer.err = TEXT("on purpose");
  } else if (holds(arguments, TEXT("half"))) {
    answer.ok.output = TEXT("half");
    answer.ok.error.is_some = true;
    answer.ok.error.some = TEXT("on purpose");
  } else {
    trip();
    answer.ok.success = true;
    answer.ok.output = (text){line, used};
  }
  return &answer;
}
