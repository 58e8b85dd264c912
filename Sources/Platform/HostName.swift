internal import Glibc

/// What the host is called.
public enum HostName {
    /// The host's name, as far as it is one; `localhost` if it has none.
    public static func text() -> String {
        let bytes = withUnsafeTemporaryAllocation(of: CChar.self, capacity: Int(HOST_NAME_MAX) + 1) { buffer -> [UInt8] in
            guard let base = buffer.baseAddress, gethostname(base, buffer.count) == 0 else { return [] }
            return buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }
        }
        return bytes.isEmpty ? "localhost" : String(decoding: bytes, as: UTF8.self)
    }
}
