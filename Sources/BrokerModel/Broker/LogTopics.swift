/// What a log line is about: mosquitto's `log_type` values.
public struct LogTopics: OptionSet, Sendable, Hashable {
    public let rawValue: UInt16

    public init(rawValue: UInt16) { self.rawValue = rawValue }

    public static let debug = LogTopics(rawValue: 1)
    public static let error = LogTopics(rawValue: 2)
    public static let warning = LogTopics(rawValue: 4)
    public static let notice = LogTopics(rawValue: 8)
    public static let information = LogTopics(rawValue: 16)
    public static let subscribe = LogTopics(rawValue: 32)
    public static let unsubscribe = LogTopics(rawValue: 64)
    public static let internalEvents = LogTopics(rawValue: 128)
    public static let webSockets = LogTopics(rawValue: 256)

    /// The topics that are logged when nothing is configured.
    public static let standard: LogTopics = [.error, .warning, .notice, .information]
    public static let all: LogTopics = [
        .debug, .error, .warning, .notice, .information, .subscribe, .unsubscribe, .internalEvents, .webSockets,
    ]
}
