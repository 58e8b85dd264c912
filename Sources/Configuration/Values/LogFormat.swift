/// The shape of a log line.
public enum LogFormat: String, Sendable, Equatable, CaseIterable {
    case text
    case json
}
