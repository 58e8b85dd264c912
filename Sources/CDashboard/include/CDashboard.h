#ifndef MARTLET_CDASHBOARD_H
#define MARTLET_CDASHBOARD_H

#include <stddef.h>

/// A file of the dashboard, as it lies in `site`. All of it stands in the binary: nothing is read at run time.
struct martlet_dashboard_file {
    /// Below the dashboard's root, such as `pages/clients.js`.
    const char *path;
    const unsigned char *bytes;
    size_t byte_count;
};

/// How many files there are.
extern const size_t martlet_dashboard_file_count;

/// One of them, from 0 on; the first is the page itself.
const struct martlet_dashboard_file *martlet_dashboard_file_at(size_t index);

#endif
