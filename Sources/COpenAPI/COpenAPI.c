#include "COpenAPI.h"

// Of C23, which clang has in every language mode.
#pragma clang diagnostic ignored "-Wc23-extensions"

static const unsigned char bytes[] = {
#embed "../Administration/openapi.json"
};
const unsigned char *const martlet_openapi = bytes;
const size_t martlet_openapi_byte_count = sizeof bytes;
