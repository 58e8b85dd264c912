/// A JSON object on one line, member by member.
struct JSONObject {
    private var members = ""

    /// The object.
    var text: String { "{\(members)}" }

    mutating func set(_ name: String, _ value: String) { append(name, JSONText.quoted(value)) }

    mutating func set(_ name: String, _ value: Bool) { append(name, value ? "true" : "false") }

    /// A number that every reader of JSON reads exactly: less than 2^53.
    mutating func set(_ name: String, _ value: some FixedWidthInteger) { append(name, String(value)) }

    mutating func set(_ name: String, _ value: JSONObject) { append(name, value.text) }

    mutating func set(_ name: String, _ values: [some FixedWidthInteger]) {
        append(name, "[\(values.map { String($0) }.joined(separator: ","))]")
    }

    mutating func set(_ name: String, _ values: [JSONObject]) {
        append(name, "[\(values.map(\.text).joined(separator: ","))]")
    }

    private mutating func append(_ name: String, _ value: String) {
        members += "\(members.isEmpty ? "" : ",")\(JSONText.quoted(name)):\(value)"
    }
}
