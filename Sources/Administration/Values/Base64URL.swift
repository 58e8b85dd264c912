internal import Bytes

/// Base64 with the alphabet for addresses, without padding. RFC 4648, section 5.
enum Base64URL {
    static func encode(_ bytes: some Collection<UInt8>) -> String {
        String(
            Base64.encode(bytes, padding: .none).map { $0 == "+" ? "-" : $0 == "/" ? "_" : $0 })
    }

    static func decode(_ text: String) -> [UInt8]? {
        guard !text.utf8.contains(where: { $0 == UInt8(ascii: "+") || $0 == UInt8(ascii: "/") }) else {
            return nil
        }
        return Base64.decode(
            String(text.map { $0 == "-" ? "+" : $0 == "_" ? "/" : $0 }), padding: .none)
    }
}
