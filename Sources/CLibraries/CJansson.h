/// Jansson as Swift sees it: its header, and functions for what Swift does not import of it.
#pragma once

#include <jansson.h>

/// What kind of value it is: json_typeof is a macro.
static inline json_type jansson_kind(const json_t *value) { return json_typeof(value); }

/// Gives a value back: json_decref is inline, and counts with what the compiler has built in.
static inline void jansson_release(json_t *value) { json_decref(value); }

/// What went wrong, as words: the array is no pointer for Swift.
static inline const char *jansson_words(const json_error_t *error) { return error->text; }
