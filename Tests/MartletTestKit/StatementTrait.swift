public import Testing

/// The statement of the standard that a test proves: its id and the version of MQTT whose text the id points into.
///
/// The same id means different rules in 3.1.1 and 5.0, so both belong together.
public struct StatementTrait: TestTrait, SuiteTrait {
    /// The statement's id, such as `MQTT-3.8.3-5`.
    public let id: String
    /// The text that the id points into.
    public let version: StandardVersion
}

/// A text of the standard that has statement ids. MQTT 3.1 has none.
public enum StandardVersion: String, Sendable {
    case v311 = "3.1.1"
    case v5 = "5.0"
}

extension Trait where Self == StatementTrait {
    /// Names the statement that a test proves, as in `.statement("MQTT-3.8.3-5", .v5)`.
    public static func statement(_ id: String, _ version: StandardVersion) -> Self {
        StatementTrait(id: id, version: version)
    }
}
