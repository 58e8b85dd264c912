import Configuration
import Testing

/// One line that is read without an error, and what it changes.
struct AcceptedOption: Sendable, CustomTestStringConvertible {
    /// The section that the line stands in.
    enum Place: String {
        case global = ""
        case listener = "allow_anonymous true\nlistener 1884\n"
        case bridge = "connection b\naddress h\ntopic #\n"
    }

    let place: Place
    let line: String
    let change: @Sendable (inout BrokerConfiguration) -> Void

    /// A line outside of every section.
    static func global(_ line: String, _ change: @escaping @Sendable (inout BrokerConfiguration) -> Void) -> Self {
        AcceptedOption(place: .global, line: line, change: change)
    }

    /// A security option outside of every section: it holds for the default listener too.
    static func security(_ line: String, _ change: @escaping @Sendable (inout SecurityConfiguration) -> Void) -> Self {
        global(line) { configuration in
            change(&configuration.security)
            change(&configuration.listeners[0].security)
        }
    }

    static func listener(_ line: String, _ change: @escaping @Sendable (inout ListenerConfiguration) -> Void) -> Self {
        AcceptedOption(place: .listener, line: line) { change(&$0.listeners[0]) }
    }

    static func bridge(_ line: String, _ change: @escaping @Sendable (inout BridgeConfiguration) -> Void) -> Self {
        AcceptedOption(place: .bridge, line: line) { change(&$0.bridges[0]) }
    }

    var testDescription: String { line }

    /// The names on its lines.
    var names: [String] { line.split(separator: "\n").map { String($0.prefix { $0 != " " }) } }
}
