// GNU Libidn's stringprep profiles, as Swift sees them.
#ifndef MARTLET_CIDN_SHIM_H
#define MARTLET_CIDN_SHIM_H

#include <stringprep.h>

#endif
