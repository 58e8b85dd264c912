/// A JSON object on one line, member by member, in the order in which they were set: a `JSONWriter` for objects that are passed around.
public struct JSONObject: Sendable {
    /// Holds the members, without the brackets around them.
    private var members = JSONWriter()

    public init() {}

    /// The object.
    public var text: String { "{\(String(decoding: members.bytes, as: UTF8.self))}" }

    /// How many bytes its text has.
    public var byteCount: Int { members.bytes.count + 2 }

    /// The same as bytes.
    public var bytes: [UInt8] { [UInt8(ascii: "{")] + members.bytes + [UInt8(ascii: "}")] }

    public mutating func set(_ name: String, _ value: String) { members.set(name, value) }

    /// A text by its bytes, which are to be UTF-8.
    public mutating func set(_ name: String, utf8 value: some Collection<UInt8>) { members.set(name, utf8: value) }

    public mutating func set(_ name: String, _ value: Bool) { members.set(name, value) }

    /// A number that every reader of JSON reads exactly: less than 2^53.
    public mutating func set(_ name: String, _ value: some FixedWidthInteger) { members.set(name, value) }

    /// Null for what is no finite number.
    public mutating func set(_ name: String, _ value: Double) { members.set(name, .number(value)) }

    public mutating func set(_ name: String, _ value: JSONObject) { members.object(name) { $0.add(membersOf: value) } }

    public mutating func set(_ name: String, _ values: [some FixedWidthInteger]) {
        members.array(name) { list in for value in values { list.add(value) } }
    }

    public mutating func set(_ name: String, _ values: [String]) {
        members.array(name) { list in for value in values { list.add(value) } }
    }

    public mutating func set(_ name: String, _ values: [JSONObject]) {
        members.array(name) { list in for value in values { list.object { $0.add(membersOf: value) } } }
    }

    /// Null for nil.
    public mutating func set(_ name: String, orNull value: String?) {
        if let value { members.set(name, value) } else { members.set(name, .null) }
    }

    /// Null for nil, and for what is no finite number.
    public mutating func set(_ name: String, orNull value: Double?) { members.set(name, value.map { .number($0) } ?? .null) }

    /// Null for nil.
    public mutating func set(_ name: String, orNull value: Bool?) { members.set(name, value.map { .boolean($0) } ?? .null) }

    /// Null for nil.
    public mutating func set(_ name: String, orNull value: (some FixedWidthInteger)?) {
        if let value { members.set(name, value) } else { members.set(name, .null) }
    }

    /// Null for nil.
    public mutating func set(_ name: String, orNull value: JSONObject?) {
        if let value { set(name, value) } else { members.set(name, .null) }
    }

    /// Numbers, null for each nil and for what is no finite number.
    public mutating func set(_ name: String, orNulls values: [Double?]) {
        members.array(name) { list in for value in values { list.add(value.map { .number($0) } ?? .null) } }
    }

    fileprivate var written: [UInt8] { members.bytes }
}

extension JSONWriter {
    /// The members of an object that is written already.
    fileprivate mutating func add(membersOf object: JSONObject) {
        let members = object.written
        if !members.isEmpty { add(json: members) }
    }
}
