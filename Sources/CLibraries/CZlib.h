#include <zlib.h>

// A macro that Swift cannot call: deflate with a header of gzip, which the 16 asks for.
static inline int zlib_begin_gzip(z_stream *stream, int level) {
    return deflateInit2(stream, level, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY);
}
