#ifndef MARTLET_CDASHBOARD_H
#define MARTLET_CDASHBOARD_H

#include <stddef.h>

/// A file of the dashboard, as it lies in `site`. All of it stands in the binary: nothing is read at run time.
struct martlet_dashboard_file {
    /// Below the dashboard's root, such as `pages/clients.js`.
    const char *path;
    const char *media_type;
    const unsigned char *bytes;
    size_t byte_count;
};

/// All files; the first is the page itself.
extern const struct martlet_dashboard_file martlet_dashboard_files[];
extern const size_t martlet_dashboard_file_count;

#endif
