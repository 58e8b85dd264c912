/// OpenSSL as Swift sees it: its headers, and functions for those of its macros that Swift does not import.
#pragma once

#include <openssl/bio.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/kdf.h>
#include <openssl/ocsp.h>
#include <openssl/params.h>
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

/// Calls `body` with each entry of a certificate's subject of that kind, in UTF-8; with -1 bytes for one that cannot be read.
static inline void openssl_each_subject_entry(X509 *certificate, int kind, void *data,
                                              void (*body)(void *, int, const unsigned char *, int)) {
    X509_NAME *name = X509_get_subject_name(certificate);
    int index = -1;
    while ((index = X509_NAME_get_index_by_NID(name, kind, index)) >= 0) {
        unsigned char *bytes = NULL;
        int count = ASN1_STRING_to_UTF8(&bytes, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(name, index)));
        body(data, kind, bytes, count);
        OPENSSL_free(bytes);
    }
}

/// Calls `body` with each DNS name, URI and e-mail address of a certificate's alternative names.
static inline void openssl_each_alternative_name(X509 *certificate, void *data, void (*body)(void *, int, const unsigned char *, int)) {
    GENERAL_NAMES *names = (GENERAL_NAMES *)X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    for (int index = 0; index < sk_GENERAL_NAME_num(names); index++) {
        GENERAL_NAME *name = sk_GENERAL_NAME_value(names, index);
        if (name->type != GEN_DNS && name->type != GEN_URI && name->type != GEN_EMAIL) continue;
        body(data, name->type, ASN1_STRING_get0_data(name->d.ia5), ASN1_STRING_length(name->d.ia5));
    }
    GENERAL_NAMES_free(names);
}

/// Has `choose` called when the client's handshake has said which host it wants, or that it does not say.
static inline void openssl_choose_by_server_name(SSL_CTX *context, int (*choose)(SSL *, int *, void *)) {
    SSL_CTX_set_tlsext_servername_callback(context, choose);
}

/// Shows the certificate, chain and key of another context in this connection. Returns 1, or 0 where that cannot be.
static inline int openssl_show_certificate_of(SSL *connection, SSL_CTX *other) {
    STACK_OF(X509) *chain = NULL;
    SSL_CTX_get0_chain_certs(other, &chain);
    return SSL_use_cert_and_key(connection, SSL_CTX_get0_certificate(other), SSL_CTX_get0_privatekey(other), chain, 1);
}

/// Chooses the groups of the key exchange, the most wanted first. Returns 1, or 0 where OpenSSL does not know one.
static inline int openssl_set_groups(SSL_CTX *context, const char *list) { return SSL_CTX_set1_groups_list(context, list); }

/// Has `answer` called for clients that ask for an answer of the authority about the certificate.
static inline void openssl_staple_answers(SSL_CTX *context, int (*answer)(SSL *, void *)) {
    SSL_CTX_set_tlsext_status_cb(context, answer);
}

/// Gives a client that asks for it an answer of the authority. Returns 1, or 0 without memory.
static inline int openssl_staple(SSL *connection, const unsigned char *bytes, long count) {
    unsigned char *copy = (unsigned char *)OPENSSL_memdup(bytes, count);
    return copy != NULL && SSL_set_tlsext_status_ocsp_resp(connection, copy, count) == 1;
}

/// What an authority's answer says of a certificate: 0 that it is good, now; 1 nothing, it is no answer; 2 that the authority had none;
/// 3 nothing, it is about others; 4 that it was good, at another time; 5 that it was revoked, or is not known.
static inline int openssl_judge_answer(const unsigned char *bytes, long count, X509 *certificate) {
    OCSP_RESPONSE *response = d2i_OCSP_RESPONSE(NULL, &bytes, count);
    if (response == NULL) return 1;
    OCSP_BASICRESP *basic = NULL;
    int judgement = 3;
    if (OCSP_response_status(response) != OCSP_RESPONSE_STATUS_SUCCESSFUL || (basic = OCSP_response_get1_basic(response)) == NULL) {
        OCSP_RESPONSE_free(response);
        return 2;
    }
    for (int index = 0; index < OCSP_resp_count(basic); index++) {
        OCSP_SINGLERESP *single = OCSP_resp_get0(basic, index);
        ASN1_INTEGER *serial = NULL;
        OCSP_id_get0_info(NULL, NULL, NULL, &serial, (OCSP_CERTID *)OCSP_SINGLERESP_get0_id(single));
        if (serial == NULL || ASN1_INTEGER_cmp(serial, X509_get0_serialNumber(certificate)) != 0) continue;
        int reason = 0;
        ASN1_GENERALIZEDTIME *revoked = NULL, *updated = NULL, *next = NULL;
        int status = OCSP_single_get0_status(single, &reason, &revoked, &updated, &next);
        judgement = status != V_OCSP_CERTSTATUS_GOOD ? 5 : OCSP_check_validity(updated, next, 300, -1) == 1 ? 0 : 4;
    }
    OCSP_BASICRESP_free(basic);
    OCSP_RESPONSE_free(response);
    ERR_clear_error();
    return judgement;
}

/// Prepares the cipher and the code of a session ticket, as RFC 5077 advises: AES-256-CBC and HMAC-SHA-256. Returns 1, or 0 where that fails.
static inline int openssl_prepare_ticket(const unsigned char *aes_key, const unsigned char *hmac_key, unsigned char *vector,
                                         EVP_CIPHER_CTX *cipher, EVP_MAC_CTX *code, int isNew) {
    OSSL_PARAM parameters[] = {OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY, (void *)hmac_key, 32),
                               OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, (char *)"SHA256", 0), OSSL_PARAM_construct_end()};
    if (isNew && RAND_bytes(vector, EVP_CIPHER_get_iv_length(EVP_aes_256_cbc())) != 1) return 0;
    if (EVP_CipherInit_ex(cipher, EVP_aes_256_cbc(), NULL, aes_key, vector, isNew) != 1) return 0;
    return EVP_MAC_CTX_set_params(code, parameters);
}

/// Has `prepare` called for each ticket that is made or comes.
static inline void openssl_prepare_tickets(SSL_CTX *context,
                                           int (*prepare)(SSL *, unsigned char *, unsigned char *, EVP_CIPHER_CTX *, EVP_MAC_CTX *, int)) {
    SSL_CTX_set_tlsext_ticket_key_evp_cb(context, prepare);
}

/// How long a session may be resumed, in seconds.
static inline void openssl_set_session_seconds(SSL_CTX *context, long seconds) { SSL_CTX_set_timeout(context, seconds); }
