/// Writes JSON as bytes, piece by piece and without a tree: for texts that may be large. Commas come by themselves.
///
///     var writer = JSONWriter()
///     writer.object { object in
///         object.set("name", "anna")
///         object.array("roles") { roles in roles.add(.string("admin")) }
///     }
///     writer.bytes
///
/// A line break may be put in front of a value, for people.
public struct JSONWriter: Sendable {
    /// What is written so far.
    public private(set) var bytes: [UInt8] = []
    private var needsComma = false

    public init() {}

    // MARK: Values of an array, or the one value

    public mutating func add(_ value: JSONValue) {
        beginValue()
        append(value)
    }

    /// A value that is written already.
    public mutating func add(json: some Sequence<UInt8>) {
        beginValue()
        bytes.append(contentsOf: json)
    }

    public mutating func object(_ members: (inout JSONWriter) -> Void) {
        beginValue()
        nest(UInt8(ascii: "{"), UInt8(ascii: "}"), members)
    }

    // MARK: Members of an object

    public mutating func set(_ name: String, _ value: String) {
        begin(name)
        append(text: value)
    }

    public mutating func set(_ name: String, _ value: Bool) {
        begin(name)
        append(value ? "true" : "false")
    }

    /// A number that every reader of JSON reads exactly: less than 2^53.
    public mutating func set(_ name: String, _ value: some FixedWidthInteger) {
        begin(name)
        append(String(value))
    }

    public mutating func set(_ name: String, _ value: JSONValue) {
        begin(name)
        append(value)
    }

    /// A value that is written already.
    public mutating func set(_ name: String, json: some Sequence<UInt8>) {
        begin(name)
        bytes.append(contentsOf: json)
    }

    public mutating func object(_ name: String, _ members: (inout JSONWriter) -> Void) {
        begin(name)
        nest(UInt8(ascii: "{"), UInt8(ascii: "}"), members)
    }

    public mutating func array(_ name: String, _ values: (inout JSONWriter) -> Void) {
        begin(name)
        nest(UInt8(ascii: "["), UInt8(ascii: "]"), values)
    }

    // MARK: -

    /// The next member or value begins a line of its own, or the end of what holds it does.
    ///
    /// - Parameters:
    ///   - depth: how far it is indented, in tabulators.
    ///   - isEnd: whether nothing follows in what holds it.
    public mutating func breakLine(_ depth: Int, isEnd: Bool = false) {
        if needsComma, !isEnd { bytes.append(UInt8(ascii: ",")) }
        needsComma = false
        bytes.append(UInt8(ascii: "\n"))
        for _ in 0..<depth { bytes.append(UInt8(ascii: "\t")) }
    }

    private mutating func begin(_ name: String) {
        beginValue()
        append(text: name)
        bytes.append(UInt8(ascii: ":"))
    }

    private mutating func beginValue() {
        if needsComma { bytes.append(UInt8(ascii: ",")) }
        needsComma = true
    }

    private mutating func nest(_ first: UInt8, _ last: UInt8, _ body: (inout JSONWriter) -> Void) {
        bytes.append(first)
        needsComma = false
        body(&self)
        bytes.append(last)
        needsComma = true
    }

    private mutating func append(_ value: JSONValue) {
        switch value {
        case .null: append("null")
        case .boolean(let value): append(value ? "true" : "false")
        case .integer(let value): append(String(value))
        case .number(let value): append(value.isFinite ? "\(value)" : "null")
        case .string(let text): append(text: text)
        case .array(let values):
            nest(UInt8(ascii: "["), UInt8(ascii: "]")) { writer in for value in values { writer.add(value) } }
        case .object(let members):
            nest(UInt8(ascii: "{"), UInt8(ascii: "}")) { writer in
                for name in members.names { if let value = members[name] { writer.set(name, value) } }
            }
        }
        needsComma = true
    }

    private mutating func append(_ text: String) { bytes.append(contentsOf: text.utf8) }

    private mutating func append(text: String) { append(JSONText.quoted(text)) }
}
