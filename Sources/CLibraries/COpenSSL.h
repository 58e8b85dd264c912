/// OpenSSL as Swift sees it: its headers, and functions for those of its macros that Swift does not import.
#pragma once

#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/kdf.h>
#include <openssl/ocsp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/sha.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

static inline int openssl_set_minimum_version(SSL_CTX *context, int version) {
    return SSL_CTX_set_min_proto_version(context, version);
}

static inline int openssl_set_maximum_version(SSL_CTX *context, int version) {
    return SSL_CTX_set_max_proto_version(context, version);
}

/// Gives a connection's record buffers back while they are empty.
static inline void openssl_release_buffers(SSL_CTX *context) { SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS); }

/// What every listener sets: neither renegotiation nor compression, and the server's choice of cipher.
static inline void openssl_set_server_options(SSL_CTX *context) {
    SSL_CTX_set_options(context, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE |
                                     SSL_OP_PRIORITIZE_CHACHA | SSL_OP_SINGLE_DH_USE | SSL_OP_SINGLE_ECDH_USE);
}

/// No session can be resumed.
static inline void openssl_refuse_tickets(SSL_CTX *context) { SSL_CTX_set_options(context, SSL_OP_NO_TICKET); }

/// Sessions live in the clients' tickets, none in memory.
static inline void openssl_disable_session_cache(SSL_CTX *context) {
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
}

static inline long openssl_choose_diffie_hellman(SSL_CTX *context) { return SSL_CTX_set_dh_auto(context, 1); }

static inline int openssl_read_crl_file(X509_STORE *store, const char *path) {
    X509_LOOKUP *lookup = X509_STORE_add_lookup(store, X509_LOOKUP_file());
    return lookup == NULL ? 0 : X509_load_crl_file(lookup, path, X509_FILETYPE_PEM);
}

static inline void openssl_set_context_data(SSL_CTX *context, void *data) { SSL_CTX_set_ex_data(context, 0, data); }
static inline void *openssl_context_data(const SSL_CTX *context) { return SSL_CTX_get_ex_data(context, 0); }
static inline void openssl_set_connection_data(SSL *connection, void *data) { SSL_set_ex_data(connection, 0, data); }
static inline void *openssl_connection_data(const SSL *connection) { return SSL_get_ex_data(connection, 0); }

/// Uses the first certificate in PEM for this side, and those behind it as its chain. Returns 1, or 0 where there is none or one is broken.
static inline int openssl_use_certificate_chain(SSL_CTX *context, BIO *bytes) {
    X509 *own = PEM_read_bio_X509_AUX(bytes, NULL, NULL, NULL);
    if (own == NULL) return 0;
    int isUsed = SSL_CTX_use_certificate(context, own) == 1;
    X509_free(own);
    X509 *next = NULL;
    while (isUsed && (next = PEM_read_bio_X509(bytes, NULL, NULL, NULL)) != NULL) {
        if (SSL_CTX_add0_chain_cert(context, next) != 1) {
            X509_free(next);
            isUsed = 0;
        }
    }
    // The end is an error of its own, that no block begins there.
    if (isUsed && ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE) ERR_clear_error();
    else if (isUsed && ERR_peek_last_error() != 0) isUsed = 0;
    return isUsed;
}

/// Uses the private key in PEM for this side. Returns 1, or 0 where there is none, or the password is wrong.
static inline int openssl_use_private_key(SSL_CTX *context, BIO *bytes, pem_password_cb *password, void *data) {
    EVP_PKEY *key = PEM_read_bio_PrivateKey(bytes, NULL, password, data);
    if (key == NULL) return 0;
    int isUsed = SSL_CTX_use_PrivateKey(context, key);
    EVP_PKEY_free(key);
    return isUsed;
}

/// Trusts the certificates in PEM. Returns how many they are.
static inline int openssl_trust_certificates(SSL_CTX *context, BIO *bytes) {
    X509_STORE *store = SSL_CTX_get_cert_store(context);
    X509 *next = NULL;
    int count = 0;
    while ((next = PEM_read_bio_X509_AUX(bytes, NULL, NULL, NULL)) != NULL) {
        count += X509_STORE_add_cert(store, next) == 1;
        X509_free(next);
    }
    if (count > 0) ERR_clear_error();
    return count;
}

/// Tells OpenSSL that a read found nothing and is to be made again.
static inline void openssl_retry_read(BIO *bio) { BIO_set_retry_read(bio); }
static inline void openssl_clear_retry(BIO *bio) { BIO_clear_retry_flags(bio); }

/// What a memory BIO holds; valid until the BIO changes.
static inline long openssl_memory(BIO *bio, char **start) { return BIO_get_mem_data(bio, start); }

/// Prints a name as RFC 2253 writes it.
static inline int openssl_print_name(BIO *bio, const X509_NAME *name) {
    return X509_NAME_print_ex(bio, name, 0, XN_FLAG_RFC2253);
}

/// Sessions that servers give are handed to the callback, and not kept in OpenSSL's own cache.
static inline void openssl_keep_client_sessions(SSL_CTX *context) {
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
}

/// A client's completed handshakes, and those of them that resumed a session.
static inline long openssl_handshake_count(SSL_CTX *context) { return SSL_CTX_sess_connect_good(context); }
static inline long openssl_resumed_count(SSL_CTX *context) { return SSL_CTX_sess_hits(context); }

/// Whether the server has stapled an answer of its authority that says, now, that its certificate is good: 1 or 0. Called by OpenSSL when the
/// chain is verified.
static inline int openssl_check_stapled_answer(SSL *connection, void *unused) {
    (void)unused;
    const unsigned char *bytes = NULL;
    long length = SSL_get_tlsext_status_ocsp_resp(connection, &bytes);
    if (bytes == NULL || length <= 0) return 0;
    STACK_OF(X509) *chain = SSL_get0_verified_chain(connection);
    OCSP_RESPONSE *response = d2i_OCSP_RESPONSE(NULL, &bytes, length);
    OCSP_BASICRESP *basic = NULL;
    OCSP_CERTID *identifier = NULL;
    ASN1_GENERALIZEDTIME *produced = NULL, *updated = NULL, *next = NULL;
    int status = 0, reason = 0, isGood = 0;
    if (response != NULL && chain != NULL && sk_X509_num(chain) > 0 &&
        OCSP_response_status(response) == OCSP_RESPONSE_STATUS_SUCCESSFUL && (basic = OCSP_response_get1_basic(response)) != NULL) {
        X509 *issuer = sk_X509_value(chain, sk_X509_num(chain) > 1 ? 1 : 0);
        identifier = OCSP_cert_to_id(NULL, sk_X509_value(chain, 0), issuer);
        isGood = OCSP_basic_verify(basic, chain, SSL_CTX_get_cert_store(SSL_get_SSL_CTX(connection)), 0) > 0 && identifier != NULL &&
                 OCSP_resp_find_status(basic, identifier, &status, &reason, &produced, &updated, &next) == 1 &&
                 OCSP_check_validity(updated, next, 300, -1) == 1 && status == V_OCSP_CERTSTATUS_GOOD;
    }
    OCSP_CERTID_free(identifier);
    OCSP_BASICRESP_free(basic);
    OCSP_RESPONSE_free(response);
    return isGood;
}

/// Ends handshakes with servers that do not prove that their certificate was not revoked.
static inline void openssl_require_stapled_answer(SSL_CTX *context) {
    SSL_CTX_set_tlsext_status_type(context, TLSEXT_STATUSTYPE_ocsp);
    SSL_CTX_set_tlsext_status_cb(context, openssl_check_stapled_answer);
}

/// Tells the server which of its names is meant.
static inline int openssl_set_server_name(SSL *connection, const char *name) {
    return (int)SSL_set_tlsext_host_name(connection, name);
}

/// Whether the text is a numeric address, and not a name.
static inline int openssl_is_address(const char *text) {
    ASN1_OCTET_STRING *address = a2i_IPADDRESS(text);
    ASN1_OCTET_STRING_free(address);
    return address != NULL;
}

/// Whether an error of the queue says that a certificate was not accepted.
static inline int openssl_is_verification_failure(unsigned long code) {
    return ERR_GET_LIB(code) == ERR_LIB_SSL && ERR_GET_REASON(code) == SSL_R_CERTIFICATE_VERIFY_FAILED;
}
