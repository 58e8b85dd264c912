public import JSON

/// A stream, or a bucket, which is a stream of a certain shape (ADR-8).
///
/// Times are in nanoseconds, as servers have them; 0 is for no bound.
public struct StreamConfiguration: Sendable, Equatable {
    public var name: String
    public var subjects: [String]
    public var replicas = 1
    public var messagesPerSubjectMax: Int64 = -1
    public var ageMax: Int64 = 0
    private var isBucket = false
    /// Whether messages may have a time to live of their own; servers have that from 2.11 on.
    public var allowsTimeToLive = false

    /// What else is to be known of it: a stream that says something else of one of these is another one.
    public var metadata: [String: String] = [:]

    public init(name: String, subjects: [String]) { (self.name, self.subjects) = (name, subjects) }

    /// A bucket of values by key, the latest of each.
    public static func bucket(_ name: String) -> StreamConfiguration {
        var stream = StreamConfiguration(name: "KV_\(name)", subjects: ["$KV.\(name).>"])
        stream.messagesPerSubjectMax = 1
        stream.isBucket = true
        return stream
    }

    var json: JSONWriter {
        var writer = JSONWriter()
        writer.object { object in
            object.set("name", name)
            object.array("subjects") { array in for subject in subjects { array.add(.string(subject)) } }
            object.set("num_replicas", replicas)
            object.set("storage", "file")
            object.set("retention", "limits")
            object.set("discard", isBucket ? "new" : "old")
            object.set("max_bytes", -1)
            object.set("max_msgs_per_subject", messagesPerSubjectMax)
            object.set("max_age", ageMax)
            object.set("duplicate_window", ageMax > 0 ? min(ageMax, Self.duplicateWindow) : Self.duplicateWindow)
            object.set("allow_direct", true)
            object.set("allow_rollup_hdrs", isBucket)
            object.set("deny_delete", isBucket)
            if !metadata.isEmpty {
                object.object("metadata") { members in
                    for (key, value) in metadata.sorted(by: { $0.key < $1.key }) { members.set(key, value) }
                }
            }
            if allowsTimeToLive {
                object.set("allow_msg_ttl", true)
                object.set("subject_delete_marker_ttl", 0)
            }
        }
        return writer
    }

    /// What of this a stream that is there does not have: each in words, what it has and what is wanted. Empty if it
    /// will do.
    public func differences(in found: JSONMembers) -> [String] {
        var differences: [String] = []
        func check(_ name: String, _ wanted: JSONValue) {
            let value = found[name] ?? .null
            let isSame =
                value == wanted || (value.integer != nil && value.integer == wanted.integer)
                || (value == .null && (wanted == .boolean(false) || wanted == .integer(0)))
            if !isSame { differences.append("\(name) is \(Self.text(value)), and \(Self.text(wanted)) is needed") }
        }
        check("subjects", .array(subjects.map { .string($0) }))
        check("num_replicas", .integer(Int64(replicas)))
        check("storage", .string("file"))
        check("retention", .string("limits"))
        // A stream that keeps what it has, and takes nothing more than its bound lets it, is no other one: whoever runs
        // the servers may bound it.
        if isBucket { check("discard", .string("new")) }
        check("max_msgs_per_subject", .integer(messagesPerSubjectMax))
        check("allow_direct", .boolean(true))
        check("allow_rollup_hdrs", .boolean(isBucket))
        check("allow_msg_ttl", .boolean(allowsTimeToLive))
        let said = found["metadata"]?.object
        // Who made it by hand has said nothing.
        for (key, value) in metadata.sorted(by: { $0.key < $1.key }) {
            guard let other = said?[key]?.string, other != value else { continue }
            differences.append("\(key) is \(other) there, and \(value) here")
        }
        return differences
    }

    /// How many replicas a stream that is there has, if that is another number than is wanted: whoever runs the servers
    /// may change it.
    public func otherReplicas(in found: JSONMembers) -> Int? {
        found["num_replicas"]?.integer.map { Int(clamping: $0) }.flatMap { $0 == replicas ? nil : $0 }
    }

    /// How long a message's identifier is remembered, so that a second one is not stored.
    private static let duplicateWindow: Int64 = 120_000_000_000

    private static func text(_ value: JSONValue) -> String {
        if value == .null { return "not set" }
        var writer = JSONWriter()
        writer.add(value)
        return String(decoding: writer.bytes, as: UTF8.self)
    }
}
