/// The value of -L, taken apart: `mqtts://user:password@host:port/topic`.
struct URLArgument: Equatable {
    var usesTLS: Bool
    var usesWebSocket: Bool
    var user: String?
    var password: String?
    var host: String
    var port: UInt16?
    var topic: String

    init(_ text: String) throws(ArgumentError) {
        guard let scheme = Self.schemes.first(where: { text.lowercased().hasPrefix($0.name) }) else {
            throw ArgumentError("Error: Unsupported URL scheme.")
        }
        (usesTLS, usesWebSocket, port) = (scheme.usesTLS, scheme.usesWebSocket, scheme.usesTLS ? 8883 : 1883)
        let rest = text.dropFirst(scheme.name.count)
        guard let slash = rest.firstIndex(of: "/") else {
            throw ArgumentError("Error: Invalid URL for -L argument specified - topic missing.")
        }
        topic = String(rest[rest.index(after: slash)...])
        var authority = rest[..<slash]
        if let at = authority.lastIndex(of: "@") {
            let login = authority[..<at].split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
            user = login.first
            password = login.count > 1 ? login[1] : nil
            authority = authority[authority.index(after: at)...]
        }
        // The colons of an IPv6 address stand between brackets.
        let bracket = authority.hasPrefix("[") ? authority.lastIndex(of: "]") : nil
        if let colon = authority[(bracket ?? authority.startIndex)...].lastIndex(of: ":") {
            let digits = authority[authority.index(after: colon)...]
            guard let number = UInt16(digits), number > 0 else { throw ArgumentError("Error: Invalid port given: \(digits)") }
            port = number
            authority = authority[..<colon]
        }
        host = bracket == nil ? String(authority) : String(authority.dropFirst().dropLast())
        guard !host.isEmpty else { throw ArgumentError("Error: Invalid URL for -L argument specified - host missing.") }
    }

    private static let schemes: [(name: String, usesTLS: Bool, usesWebSocket: Bool)] = [
        ("mqtt://", false, false), ("mqtts://", true, false), ("ws://", false, true), ("wss://", true, true),
    ]
}
