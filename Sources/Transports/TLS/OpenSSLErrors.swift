internal import COpenSSL

/// OpenSSL's queue of errors, one for each thread. What a call leaves there explains it; what an earlier one left would mislead.
enum OpenSSLErrors {
    static func clear() {
        ERR_clear_error()
    }

    /// Takes the whole queue; the words of its first error, or these.
    ///
    /// A certificate that fails to verify is told as that, and not as the arithmetic that found it.
    static func take(or words: String) -> String {
        var first = ERR_get_error()
        guard first != 0 else { return words }
        while case let next = ERR_get_error(), next != 0 {
            if openssl_is_verification_failure(next) == 1 { first = next }
        }
        guard let reason = ERR_reason_error_string(first) else { return "\(words) (OpenSSL error \(first))" }
        return String(cString: reason)
    }
}
