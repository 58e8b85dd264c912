internal import JSON
internal import JSONReader
internal import Platform

/// Why a command did not do what it was to do: the end of the process.
public struct ControlError: Error, Equatable, CustomStringConvertible {
    /// With what the process ends.
    public enum Code: Int32, Sendable {
        /// The broker does not do it, or finds something wrong.
        case refused = 1
        /// There is no answer.
        case unreachable = 2
        /// Log in, or as somebody else.
        case notAllowed = 3
        /// There is no such client, bridge, token, topic or trace.
        case notFound = 4
    }

    public let code: Code
    /// A sentence. Nothing in it moves a terminal's cursor.
    public let description: String

    init(_ code: Code, _ words: String) { (self.code, description) = (code, TerminalText.line(words)) }

    /// What an answer says that is no success.
    init(_ answer: ControlAnswer) {
        let code: Code =
            switch answer.status {
            case 401, 403: .notAllowed
            case 404: .notFound
            default: .refused
            }
        let envelope = try? JSONValue(reading: answer.body)
        var words = envelope?.object?["message"]?.string ?? "the broker answers with status \(answer.status)."
        if answer.status == 401 {
            words += " Give a token with --token-file or MARTLET_TOKEN, or ask over the broker's Unix socket."
        }
        if answer.status == 403, words.hasPrefix("That needs the role") {
            words += " Ask over the broker's Unix socket, as root or as the broker's user, or give a token with that role."
        }
        self.init(code, words)
    }

    /// The same with the name of what is not there.
    func about(_ name: String) -> ControlError {
        let beginning = "There is no such "
        guard code == .notFound, description.hasPrefix(beginning) else { return self }
        let kind = description.dropFirst(beginning.count).prefix { $0 != "." }
        return ControlError(.notFound, "There is no \(kind) \(name).")
    }
}
