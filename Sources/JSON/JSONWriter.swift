/// Writes JSON as bytes, piece by piece and without a tree: for texts that may be large. Commas come by themselves.
///
///     var writer = JSONWriter()
///     writer.object { object in
///         object.set("name", "anna")
///         object.array("roles") { roles in roles.add("admin") }
///     }
///     writer.bytes
///
/// In the plain style a line break may be put in front of a value, for people.
public struct JSONWriter: Sendable {
    /// What is written so far.
    public private(set) var bytes: [UInt8] = []
    private let style: JSONStyle
    private var needsComma = false
    /// How many objects and arrays are open.
    private var depth = 0

    public init(_ style: JSONStyle = .plain) { self.style = style }

    // MARK: Values of an array, or the one value

    public mutating func add(_ value: JSONValue) {
        beginValue()
        append(value)
    }

    public mutating func add(_ value: String) {
        beginValue()
        JSONText.append(value.utf8, to: &bytes, style)
    }

    /// A text by its bytes, which are to be UTF-8.
    public mutating func add(utf8 value: some Collection<UInt8>) {
        beginValue()
        JSONText.append(value, to: &bytes, style)
    }

    /// A number that every reader of JSON reads exactly: less than 2^53.
    public mutating func add(_ value: some FixedWidthInteger) {
        beginValue()
        append(String(value))
    }

    /// A value that is written already.
    public mutating func add(json: some Sequence<UInt8>) {
        beginValue()
        bytes.append(contentsOf: json)
    }

    public mutating func object(_ members: (inout JSONWriter) -> Void) {
        beginValue()
        nestObject(members)
    }

    public mutating func array(_ values: (inout JSONWriter) -> Void) {
        beginValue()
        nestArray(values)
    }

    // MARK: Members of an object

    public mutating func set(_ name: String, _ value: String) {
        begin(name.utf8)
        JSONText.append(value.utf8, to: &bytes, style)
    }

    /// A text by its bytes, which are to be UTF-8.
    public mutating func set(_ name: String, utf8 value: some Collection<UInt8>) {
        begin(name.utf8)
        JSONText.append(value, to: &bytes, style)
    }

    public mutating func set(_ name: String, _ value: Bool) {
        begin(name.utf8)
        append(value ? "true" : "false")
    }

    /// A number that every reader of JSON reads exactly: less than 2^53.
    public mutating func set(_ name: String, _ value: some FixedWidthInteger) {
        begin(name.utf8)
        append(String(value))
    }

    public mutating func set(_ name: String, _ value: JSONValue) {
        begin(name.utf8)
        append(value)
    }

    /// A value that is written already.
    public mutating func set(_ name: String, json: some Sequence<UInt8>) {
        begin(name.utf8)
        bytes.append(contentsOf: json)
    }

    public mutating func object(_ name: String, _ members: (inout JSONWriter) -> Void) {
        begin(name.utf8)
        nestObject(members)
    }

    public mutating func array(_ name: String, _ values: (inout JSONWriter) -> Void) {
        begin(name.utf8)
        nestArray(values)
    }

    /// A member whose value is the one that `value` adds.
    ///
    /// - Parameters:
    ///   - name: its bytes, which are to be UTF-8.
    ///   - value: adds one value.
    public mutating func member(_ name: some Collection<UInt8>, _ value: (inout JSONWriter) -> Void) {
        begin(name)
        needsComma = false
        value(&self)
        needsComma = true
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
        indent(depth)
    }

    private mutating func indent(_ depth: Int) {
        for _ in 0..<depth { bytes.append(UInt8(ascii: "\t")) }
    }

    private mutating func begin(_ name: some Collection<UInt8>) {
        if needsComma { bytes.append(UInt8(ascii: ",")) }
        if style == .cJSONLines {
            bytes.append(UInt8(ascii: "\n"))
            indent(depth)
        }
        needsComma = true
        JSONText.append(name, to: &bytes, style)
        bytes.append(UInt8(ascii: ":"))
        if style == .cJSONLines { bytes.append(UInt8(ascii: "\t")) }
    }

    private mutating func beginValue() {
        if needsComma { append(style == .cJSONLines ? ", " : ",") }
        needsComma = true
    }

    private mutating func nestObject(_ members: (inout JSONWriter) -> Void) {
        nest(UInt8(ascii: "{"), members)
        if style == .cJSONLines {
            bytes.append(UInt8(ascii: "\n"))
            indent(depth)
        }
        bytes.append(UInt8(ascii: "}"))
    }

    private mutating func nestArray(_ values: (inout JSONWriter) -> Void) {
        nest(UInt8(ascii: "["), values)
        bytes.append(UInt8(ascii: "]"))
    }

    private mutating func nest(_ bracket: UInt8, _ body: (inout JSONWriter) -> Void) {
        bytes.append(bracket)
        depth += 1
        needsComma = false
        body(&self)
        depth -= 1
        needsComma = true
    }

    private mutating func append(_ value: JSONValue) {
        switch value {
        case .null: append("null")
        case .boolean(let value): append(value ? "true" : "false")
        case .integer(let value): append(String(value))
        case .number(let value): append(value.isFinite ? "\(value)" : "null")
        case .string(let text): JSONText.append(text.utf8, to: &bytes, style)
        case .array(let values): nestArray { writer in for value in values { writer.add(value) } }
        case .object(let members):
            nestObject { writer in
                for name in members.names { if let value = members[name] { writer.set(name, value) } }
            }
        }
    }

    private mutating func append(_ text: String) { bytes.append(contentsOf: text.utf8) }
}
