#ifndef MARTLET_COPENAPI_H
#define MARTLET_COPENAPI_H

#include <stddef.h>

/// The description of the administration's API, as it lies beside it. It stands in the binary: nothing is read at run time.
extern const unsigned char *const martlet_openapi;
extern const size_t martlet_openapi_byte_count;

#endif
