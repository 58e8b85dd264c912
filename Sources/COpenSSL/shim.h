// OpenSSL as Swift sees it. What OpenSSL offers as a macro, Swift cannot call: it is wrapped here, under the prefix `openssl_`.
#ifndef MARTLET_COPENSSL_SHIM_H
#define MARTLET_COPENSSL_SHIM_H

#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#endif
