internal import COpenSSL
internal import Glibc
internal import Platform

/// The files of either side's TLS, and what is said when one is wrong.
enum TLSFiles {
    /// Reads a side's own certificate and key into the context, each if it is given.
    ///
    /// - Parameter password: of a key that has one; nil refuses such a key: what starts by itself has nobody to ask.
    static func useCertificate(
        _ certificateFile: String?, key keyFile: String?, password: String? = nil, in context: OpaquePointer
    ) throws(TLSFailure) {
        SSL_CTX_set_default_passwd_cb(context, givePassword)
        if let path = certificateFile {
            try checkReadable("certfile", path)
            guard SSL_CTX_use_certificate_chain_file(context, path) == 1 else {
                throw failure("certfile", path, "it holds no certificate")
            }
        }
        guard let path = keyFile else { return }
        try checkReadable("keyfile", path)
        let mismatch = "the key does not match the certificate in \(certificateFile.map { FullPath.of($0) } ?? "certfile")"
        let isRead = withPassword(password) { password in
            SSL_CTX_set_default_passwd_cb_userdata(context, password)
            defer { SSL_CTX_set_default_passwd_cb_userdata(context, nil) }
            return SSL_CTX_use_PrivateKey_file(context, path, SSL_FILETYPE_PEM) == 1
        }
        guard isRead else {
            let reason = OpenSSLErrors.take(or: "it holds no key")
            throw TLSFailure(option: "keyfile", value: path, reason: reason.holds("mismatch") ? mismatch : reason)
        }
        guard SSL_CTX_check_private_key(context) == 1 else {
            OpenSSLErrors.clear()
            throw TLSFailure(option: "keyfile", value: path, reason: mismatch)
        }
    }

    /// The same in memory, PEM.
    static func useCertificate(
        _ certificate: [UInt8], key: [UInt8], password: String?, in context: OpaquePointer
    ) throws(TLSFailure) {
        guard withMemory(certificate, { openssl_use_certificate_chain(context, $0) == 1 }) else {
            throw failure("certificate in memory", "", "it holds no certificate in PEM")
        }
        let mismatch = TLSFailure(option: "key in memory", value: "", reason: "the key does not match the certificate")
        let isRead = withPassword(password) { password in
            withMemory(key) { openssl_use_private_key(context, $0, givePassword, password) }
        }
        guard isRead == 1 else {
            let reason = OpenSSLErrors.take(or: "it holds no key in PEM")
            throw reason.holds("mismatch") ? mismatch : TLSFailure(option: "key in memory", value: "", reason: reason)
        }
        guard SSL_CTX_check_private_key(context) == 1 else {
            OpenSSLErrors.clear()
            throw mismatch
        }
    }

    /// Lends OpenSSL the bytes to read from.
    static func withMemory<Answer>(_ bytes: [UInt8], _ body: (OpaquePointer?) -> Answer) -> Answer {
        bytes.withUnsafeBytes { bytes in
            let reader = BIO_new_mem_buf(bytes.baseAddress, Int32(clamping: bytes.count))
            defer { BIO_free(reader) }
            return body(reader)
        }
    }

    private static func withPassword<Answer>(_ password: String?, _ body: (UnsafeMutableRawPointer?) -> Answer) -> Answer {
        guard let password else { return body(nil) }
        return password.withCString { body(UnsafeMutableRawPointer(mutating: $0)) }
    }

    /// OpenSSL's words for a missing file are about its own insides. A block right behind a byte order mark it passes over, in silence where
    /// others follow: an authority, or a list of revoked certificates, would not count.
    static func checkReadable(_ option: String, _ path: String) throws(TLSFailure) {
        var head = [UInt8](repeating: 0, count: markedBlock.count)
        do throws(SystemError) {
            let file = try SystemCall.open(path, flags: O_RDONLY)
            defer { file.close() }
            // What cannot be read is OpenSSL's to say; capath is a directory.
            guard head.withUnsafeMutableBytes({ read(file.rawValue, $0.baseAddress, $0.count) }) == head.count else { return }
        } catch {
            throw TLSFailure(option: option, value: path, reason: error.reason)
        }
        guard head == markedBlock else { return }
        // A link, as of certificates that renew themselves, stays one.
        let parts = FullPath.of(path).split(separator: "'", omittingEmptySubsequences: false)
        let command = #"sed -i --follow-symlinks '1s/^\xEF\xBB\xBF//' '\#(parts.joined(separator: #"'\''"#))'"#
        throw TLSFailure(
            option: option, value: path,
            reason:
                "it begins with a byte order mark, so that OpenSSL would not read its first block. Remove it: \(command)"
        )
    }

    private static let markedBlock = ByteOrderMark.bytes + Array("-----BEGIN ".utf8)

    /// With what OpenSSL has to say about it.
    static func failure(_ option: String, _ value: String, _ words: String) -> TLSFailure {
        let reason = OpenSSLErrors.take(or: words)
        return TLSFailure(option: option, value: value, reason: reason == words ? words : "\(words) (\(reason))")
    }
}

/// What OpenSSL calls for a key's password, which is the data that it was given; returns its length, -1 if there is none or no room.
private func givePassword(
    _ buffer: UnsafeMutablePointer<CChar>?, _ size: Int32, _ isForWriting: Int32, _ data: UnsafeMutableRawPointer?
) -> Int32 {
    guard let buffer, let data else { return -1 }
    let password = data.assumingMemoryBound(to: CChar.self)
    let length = strlen(password)
    guard length <= Int(size) else { return -1 }
    memcpy(buffer, password, length)
    return Int32(length)
}
