internal import MartletClient

/// With what the client commands end; where mosquitto's have a number for it, it is theirs.
enum ExitCode {
    static let success: Int32 = 0
    /// The arguments are wrong, a file cannot be read, nothing can be reached.
    static let failure: Int32 = 1
    /// Nothing came in the time of -W.
    static let timeout: Int32 = 27

    /// What the user is told of an error, and the exit code: of a refusal the reason code of MQTT 5.0, or the return code of 3.1.1.
    static func of(_ error: ClientError, _ version: ProtocolVersion) -> (words: String, code: Int32) {
        switch error {
        case .refused(let reason, let words, _):
            if version != .v5, let (code, text) = returnCode(reason) {
                return ("Connection error: Connection Refused: \(text).", code)
            }
            // A broker's reason may be a sentence, which goes on here.
            let detail = words.map { " (\($0.hasSuffix(".") && !$0.hasSuffix("..") ? String($0.dropLast()) : $0))" } ?? ""
            return ("Connection error: \(sentence(reason))\(detail)", Int32(reason.rawValue))
        case .timedOut: return ("Error: The server does not answer.", failure)
        default:
            return ("Error: \(sentence("\(error)"))", failure)
        }
    }

    /// The reason with a capital.
    static func sentence(_ reason: ReasonCode) -> String { sentence("\(reason)") }

    /// Names of hosts and files stay as they are.
    private static func sentence(_ text: String) -> String {
        guard text.prefix(while: { $0 != " " }).allSatisfy(\.isLetter) else { return text }
        return text.prefix(1).uppercased() + text.dropFirst()
    }

    /// CONNACK's return code before MQTT 5.0, in mosquitto's words.
    private static func returnCode(_ reason: ReasonCode) -> (Int32, String)? {
        switch reason {
        case .unsupportedProtocolVersion: (1, "unacceptable protocol version")
        case .clientIdentifierNotValid: (2, "identifier rejected")
        case .serverUnavailable: (3, "broker unavailable")
        case .badUserNameOrPassword: (4, "bad user name or password")
        case .notAuthorized: (5, "not authorised")
        default: nil
        }
    }
}
