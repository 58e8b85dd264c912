internal import COpenSSL

/// OpenSSL's queue of errors, one for each thread. What a call leaves there explains it; what an earlier one left would mislead.
enum OpenSSLErrors {
    static func clear() {
        ERR_clear_error()
    }

    /// Takes the whole queue; the words of its first error, or these.
    static func take(or words: String) -> String {
        let first = ERR_get_error()
        ERR_clear_error()
        guard first != 0 else { return words }
        guard let reason = ERR_reason_error_string(first) else { return "\(words) (OpenSSL error \(first))" }
        return String(cString: reason)
    }
}
