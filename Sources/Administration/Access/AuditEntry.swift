internal import JSON

/// An entry of the audit: who has changed what, or was refused.
public struct AuditEntry: Sendable {
    public enum Source: String, Sendable {
        case http
        /// A message below `$CONTROL`.
        case control
        case cli
        case signal
    }

    /// Milliseconds since 1970.
    public var at: UInt64
    public var source: Source
    public var who: String?
    public var address: String?
    public var operation: String
    public var target: String?
    /// Of HTTP.
    public var status: Int
    public var milliseconds: UInt64
    /// How many it stands for, where it is the sum of several.
    var count: Int?

    public init(
        at: UInt64, source: Source, who: String?, address: String?, operation: String, target: String?,
        status: Int,
        milliseconds: UInt64
    ) {
        (self.at, self.source, self.who, self.address, self.operation) = (
            at, source, who, address, operation
        )
        (self.target, self.status, self.milliseconds) = (target, status, milliseconds)
    }

    /// What the audit's file has of it: a JSON object.
    public var line: String { cut(to: Limits.auditTextBytesMax).json.text }

    /// With texts of so many bytes at most, and a sign where one is cut.
    func cut(to bytesMax: Int) -> AuditEntry {
        func short(_ text: String) -> String {
            text.utf8.count <= bytesMax + Self.mark.utf8.count
                ? text : String(decoding: text.utf8.prefix(bytesMax), as: UTF8.self) + Self.mark
        }
        var entry = self
        (entry.who, entry.target) = (who.map(short), target.map(short))
        return entry
    }

    var json: JSONObject {
        var object = JSONObject()
        object.set("at", Timestamp.text(at))
        object.set("from", source.rawValue)
        object.set("who", orNull: who)
        object.set("address", orNull: address)
        object.set("operation", operation)
        object.set("target", orNull: target.flatMap { $0.isEmpty ? nil : $0 })
        object.set("status", status)
        object.set("duration_ms", milliseconds)
        if let count { object.set("count", count) }
        return object
    }

    private static let mark = "..."
}
