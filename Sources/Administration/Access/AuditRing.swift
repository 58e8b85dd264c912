internal import JSON

/// Who has changed what, or was refused: an entry of the audit.
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
    public var line: String { json.text }

    var json: JSONObject {
        var object = JSONObject()
        object.set("at", Timestamp.text(at))
        object.set("from", source.rawValue)
        object.set("who", orNull: who.map { Self.short($0) })
        object.set("address", orNull: address)
        object.set("operation", operation)
        object.set("target", orNull: target.flatMap { $0.isEmpty ? nil : Self.short($0) })
        object.set("status", status)
        object.set("duration_ms", milliseconds)
        return object
    }

    private static func short(_ text: String) -> String {
        text.utf8.count <= Limits.auditTextBytesMax
            ? text : String(decoding: text.utf8.prefix(Limits.auditTextBytesMax), as: UTF8.self) + "..."
    }
}

/// The last entries of the audit. Invariant: at most `Limits.auditEntriesMax`.
struct AuditRing {
    private var entries: [AuditEntry] = []
    private var next = 0

    mutating func add(_ entry: AuditEntry) {
        if entries.count < Limits.auditEntriesMax {
            entries.append(entry)
        } else {
            entries[next] = entry
            next = (next + 1) % entries.count
        }
    }

    /// The newest first.
    func last(_ count: Int) -> [AuditEntry] {
        (0..<min(count, entries.count)).map { entries[(next + entries.count - 1 - $0) % entries.count] }
    }
}
