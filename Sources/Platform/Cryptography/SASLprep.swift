internal import CIDN
internal import Glibc

/// SASLprep: the one form of a user name or password that can be typed in several, and the refusal of what cannot be
/// typed at all. [RFC 4013]
package enum SASLprep {
    /// What a text is for. [RFC 3454, section 7]
    package enum Purpose {
        /// It is kept: code points without a meaning in Unicode 3.2 are refused, because a later Unicode may change
        /// their form.
        case storing
        /// It is compared with what is kept, and may hold any.
        case asking
    }

    /// Bytes of a text that is prepared and not ASCII: PostgreSQL's limit. A longer one is refused.
    package static var preparedBytes: Int { Limits.preparedTextBytesMax }

    /// The prepared text, UTF-8 as it came. Nil for one that is not UTF-8, holds a control character or another that is
    /// forbidden, mixes directions of writing, is nothing when it is prepared, or is longer than `bytesMax` without
    /// being ASCII.
    ///
    /// O(n) for ASCII; the library's work on others is O(n²), so they are bounded: a client that nobody knows may send
    /// them.
    package static func prepare(_ text: [UInt8], for purpose: Purpose) -> [UInt8]? {
        guard !text.isEmpty, !text.contains(where: { $0 < 0x20 || $0 == 0x7f }) else { return nil }
        if text.allSatisfy({ $0 < 0x80 }) { return text }
        guard text.count <= Limits.preparedTextBytesMax, let text = String(validating: text, as: UTF8.self) else { return nil }
        var prepared: UnsafeMutablePointer<CChar>?
        // The text holds no zero, so the C string is all of it.
        guard stringprep_profile(text, &prepared, "SASLprep", purpose.flags) == 0, let prepared else { return nil }
        defer { free(prepared) }
        let bytes = UnsafeBufferPointer(start: prepared, count: strlen(prepared)).map { UInt8(bitPattern: $0) }
        return bytes.isEmpty ? nil : bytes
    }
}

extension SASLprep.Purpose {
    fileprivate var flags: Stringprep_profile_flags {
        switch self {
        case .storing: STRINGPREP_NO_UNASSIGNED
        case .asking: Stringprep_profile_flags(0)
        }
    }
}

/// The bounds of what is computed for strangers.
extension Limits {
    /// Bytes of a name or password that SASLprep prepares: PostgreSQL's limit. A longer one that is not ASCII is
    /// refused.
    static let preparedTextBytesMax = 1024
}
