internal import JSON
internal import JSONReader

/// A server's identity and what it takes, as its INFO says.
public struct ServerInfo: Sendable, Equatable {
    public let serverID: String
    public let serverName: String
    public let version: ServerVersion
    /// The most bytes of a message that it takes, headers and all.
    public let payloadBytesMax: Int
    public let takesHeaders: Bool
    public let requiresTLS: Bool
    public let offersTLS: Bool
    public let requiresLogin: Bool
    /// What a key has to sign; nil if it asks for none.
    public let nonce: String?
    /// Other servers of its cluster, as `host:port`.
    public let connectAddresses: [String]
    /// Whether it is about to end, and asks its clients to go elsewhere.
    public let isEnding: Bool
    /// Whether it, or its cluster, has JetStream.
    public let hasJetStream: Bool
    /// The name of its cluster; nil for none.
    public let clusterName: String?

    /// Reads the object of an INFO line. Throws what is missing or of another kind.
    init(reading bytes: [UInt8]) throws(WireError) {
        let value: JSONValue
        do throws(JSONError) {
            value = try JSONValue(reading: bytes)
        } catch {
            throw WireError(description: "INFO is no JSON: \(error)")
        }
        guard let members = value.object else { throw WireError(description: "INFO is no object of JSON") }
        guard let text = members["version"]?.string, let version = ServerVersion(text) else {
            throw WireError(description: "INFO names no version")
        }
        guard let payloadBytesMax = members["max_payload"]?.integer, payloadBytesMax > 0 else {
            throw WireError(description: "INFO names no max_payload")
        }
        self.version = version
        self.payloadBytesMax = Int(min(payloadBytesMax, Int64(Limits.messageBytesMax)))
        serverID = members["server_id"]?.string ?? ""
        serverName = members["server_name"]?.string ?? serverID
        takesHeaders = members["headers"]?.boolean ?? false
        requiresTLS = members["tls_required"]?.boolean ?? false
        offersTLS = requiresTLS || members["tls_available"]?.boolean ?? false
        requiresLogin = members["auth_required"]?.boolean ?? false
        nonce = members["nonce"]?.string
        connectAddresses = members["connect_urls"]?.array?.compactMap(\.string) ?? []
        isEnding = members["ldm"]?.boolean ?? false
        hasJetStream = members["jetstream"]?.boolean ?? false
        clusterName = members["cluster"]?.string
    }
}

/// A version as servers write it: `2.12.1`, `2.14.0-beta.1`.
public struct ServerVersion: Sendable, Comparable, CustomStringConvertible {
    public let major: Int
    public let minor: Int
    public let patch: Int

    public init(_ major: Int, _ minor: Int, _ patch: Int = 0) { (self.major, self.minor, self.patch) = (major, minor, patch) }

    /// nil if the text does not begin with two or three numbers.
    public init?(_ text: String) {
        let numbers = text.prefix { $0 != "-" && $0 != "+" }.split(separator: ".", omittingEmptySubsequences: false).map { Int($0) }
        guard (2...3).contains(numbers.count), let major = numbers[0], let minor = numbers[1] else { return nil }
        guard let patch = numbers.count == 3 ? numbers[2] : 0, major >= 0, minor >= 0, patch >= 0 else { return nil }
        self.init(major, minor, patch)
    }

    public static func < (left: ServerVersion, right: ServerVersion) -> Bool {
        (left.major, left.minor, left.patch) < (right.major, right.minor, right.patch)
    }

    public var description: String { "\(major).\(minor).\(patch)" }
}
