internal import COpenSSL

/// The names in a certificate as user names.
enum CertificateName {
    /// The first common name; nil when there is none, or when it is not text that can be trusted to be read to its end.
    static func commonName(of name: OpaquePointer?) -> String? {
        guard let name else { return nil }
        let index = X509_NAME_get_index_by_NID(name, NID_commonName, -1)
        guard index >= 0, let data = X509_NAME_ENTRY_get_data(X509_NAME_get_entry(name, index)) else { return nil }
        var bytes: UnsafeMutablePointer<UInt8>?
        let count = ASN1_STRING_to_UTF8(&bytes, data)
        guard count > 0, let bytes else { return nil }
        defer { CRYPTO_free(bytes, #file, #line) }
        let text = UnsafeBufferPointer(start: bytes, count: Int(count))
        // A zero inside has been used to pass for another name.
        return text.contains(0) ? nil : String(validating: text, as: UTF8.self)
    }

    /// All of it, as RFC 2253 writes it: last part first.
    static func subject(_ name: OpaquePointer?) -> String? {
        guard let name, let memory = BIO_new(BIO_s_mem()) else { return nil }
        defer { BIO_free(memory) }
        guard openssl_print_name(memory, name) >= 0 else { return nil }
        var start: UnsafeMutablePointer<CChar>?
        let count = openssl_memory(memory, &start)
        guard count > 0, let start else { return nil }
        return String(validating: UnsafeRawBufferPointer(start: start, count: count), as: UTF8.self)
    }
}
