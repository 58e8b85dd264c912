import JSON
import JSONReader
import MQTTCodec
import Security
import Testing

/// Commands on a model, as an administrator gives them.
struct Conversation {
    var dispatcher = SecurityDispatcher(SecurityModel())
    /// What the last message brought about.
    private(set) var outcome: SecurityDispatcher.Outcome

    init() {
        var empty = SecurityDispatcher(SecurityModel())
        outcome = empty.perform(
            SecurityRequest(Array("{}".utf8)), SecurityContext(clientIdentifier: "", userName: nil, hash: Self.hash))
    }

    /// A hash that costs nothing.
    static func hash(_ password: String) -> StoredPassword? {
        let salt = "c2FsdHNhbHRzYWx0"
        let digest = String(repeating: "A", count: 86) + "=="
        return StoredPassword("$7$\(max(1, password.utf8.count))$\(salt)$\(digest)")
    }

    /// The answer to a message.
    mutating func say(_ payload: String) -> String {
        let context = SecurityContext(clientIdentifier: "shell", userName: "admin", hash: Self.hash) { user in
            user == "anna" ? ["192.0.2.1"] : []
        }
        outcome = dispatcher.perform(SecurityRequest(Array(payload.utf8)), context)
        return String(decoding: outcome.text(), as: UTF8.self)
    }

    /// The answer to one command, without what all answers have around them.
    mutating func ask(_ command: String) -> String {
        let answer = say(#"{"commands":[\#(command)]}"#)
        return String(answer.dropFirst(#"{"responses":["#.count).dropLast(2))
    }

    /// The error that a command is answered with; nil for none.
    mutating func error(_ command: String) -> String? {
        let answer = Array(ask(command).utf8)
        return (try? JSONValue(reading: answer))?.object?["error"]?.string
    }
}
