/// What a request wants done, RFC 9110, section 9. Any token is one; case counts.
public struct HTTPMethod: RawRepresentable, Hashable, Sendable {
    public let rawValue: String

    public init(rawValue: String) { self.rawValue = rawValue }

    public static let get = HTTPMethod(rawValue: "GET")
    public static let head = HTTPMethod(rawValue: "HEAD")
    public static let post = HTTPMethod(rawValue: "POST")
    public static let put = HTTPMethod(rawValue: "PUT")
    public static let patch = HTTPMethod(rawValue: "PATCH")
    public static let delete = HTTPMethod(rawValue: "DELETE")
    public static let options = HTTPMethod(rawValue: "OPTIONS")
    public static let connect = HTTPMethod(rawValue: "CONNECT")

    /// Whether it changes nothing, RFC 9110, section 9.2.1.
    public var isSafe: Bool { self == .get || self == .head || self == .options || rawValue == "TRACE" }
}

extension HTTPMethod: CustomStringConvertible {
    public var description: String { rawValue }
}

/// The version of a message that is understood here: others are refused with 505.
public enum HTTPVersion: Sendable {
    /// Its connections end with the answer.
    case http10
    /// 1.1, and every later minor version, which RFC 9110, section 2.5, has read as this one.
    case http11
}
