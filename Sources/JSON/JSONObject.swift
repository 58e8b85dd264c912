/// A JSON object on one line, member by member, in the order in which they were set.
public struct JSONObject: Sendable {
    private var members = ""

    public init() {}

    /// The object.
    public var text: String { "{\(members)}" }

    public mutating func set(_ name: String, _ value: String) { append(name, JSONText.quoted(value)) }

    public mutating func set(_ name: String, _ value: Bool) { append(name, value ? "true" : "false") }

    /// A number that every reader of JSON reads exactly: less than 2^53.
    public mutating func set(_ name: String, _ value: some FixedWidthInteger) { append(name, String(value)) }

    /// Null for what is no finite number.
    public mutating func set(_ name: String, _ value: Double) { append(name, value.isFinite ? "\(value)" : "null") }

    public mutating func set(_ name: String, _ value: JSONObject) { append(name, value.text) }

    public mutating func set(_ name: String, _ values: [some FixedWidthInteger]) {
        append(name, "[\(values.map { String($0) }.joined(separator: ","))]")
    }

    public mutating func set(_ name: String, _ values: [String]) {
        append(name, "[\(values.map { JSONText.quoted($0) }.joined(separator: ","))]")
    }

    public mutating func set(_ name: String, _ values: [JSONObject]) {
        append(name, "[\(values.map(\.text).joined(separator: ","))]")
    }

    /// Null for nil.
    public mutating func set(_ name: String, orNull value: String?) { append(name, value.map { JSONText.quoted($0) } ?? "null") }

    /// Null for nil, and for what is no finite number.
    public mutating func set(_ name: String, orNull value: Double?) {
        append(name, value.flatMap { $0.isFinite ? "\($0)" : nil } ?? "null")
    }

    /// Null for nil.
    public mutating func set(_ name: String, orNull value: Bool?) { append(name, value.map { $0 ? "true" : "false" } ?? "null") }

    /// Null for nil.
    public mutating func set(_ name: String, orNull value: (some FixedWidthInteger)?) {
        append(name, value.map { String($0) } ?? "null")
    }

    /// Null for nil.
    public mutating func set(_ name: String, orNull value: JSONObject?) { append(name, value?.text ?? "null") }

    /// Numbers, null for each nil and for what is no finite number.
    public mutating func set(_ name: String, orNulls values: [Double?]) {
        append(name, "[\(values.map { $0.map { $0.isFinite ? "\($0)" : "null" } ?? "null" }.joined(separator: ","))]")
    }

    private mutating func append(_ name: String, _ value: String) {
        members += "\(members.isEmpty ? "" : ",")\(JSONText.quoted(name)):\(value)"
    }
}
