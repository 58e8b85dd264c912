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
    /// The bytes that are written so far.
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

/// A JSON object on one line, member by member, in the order in which they were set: a `JSONWriter` for objects that
/// are passed around.
public struct JSONObject: Sendable {
    /// Holds the members, without the brackets around them.
    private var members = JSONWriter()

    public init() {}

    /// The object.
    public var text: String { "{\(String(decoding: members.bytes, as: UTF8.self))}" }

    /// How many bytes its text has.
    public var byteCount: Int { members.bytes.count + 2 }

    /// The object as bytes.
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

/// How JSON looks, where readers have the choice: what is written means the same.
public enum JSONStyle: Sendable {
    /// Without blanks; control characters and DEL as `\n`, `\r`, `\t` and `\u00XX`.
    case plain
    /// As the library cJSON prints it, which mosquitto uses: without blanks; `\b` and `\f` too, and DEL as it is.
    case cJSON
    /// JSON for people, as cJSON prints it: a line for each member, indented with tabulators.
    case cJSONLines
}

/// Texts as JSON writes them.
enum JSONText {
    /// Appends a text in quotes, with what may not stand in a JSON string escaped. Bytes that are no UTF-8 stay as they
    /// are. RFC 8259, section 7.
    @inline(__always)
    static func append(_ text: some Collection<UInt8>, to bytes: inout [UInt8], _ style: JSONStyle) {
        bytes.append(UInt8(ascii: "\""))
        let isDone: Void? = text.withContiguousStorageIfAvailable { append($0, to: &bytes, style) }
        if isDone == nil { Array(text).withUnsafeBufferPointer { append($0, to: &bytes, style) } }
        bytes.append(UInt8(ascii: "\""))
    }

    private static func append(_ text: UnsafeBufferPointer<UInt8>, to bytes: inout [UInt8], _ style: JSONStyle) {
        var written = 0
        for place in text.indices where isEscaped(text[place]) {
            bytes.append(contentsOf: text[written..<place])
            written = place + 1
            append(escaped: text[place], to: &bytes, style)
        }
        bytes.append(contentsOf: text[written...])
    }

    private static func append(escaped byte: UInt8, to bytes: inout [UInt8], _ style: JSONStyle) {
        let short: Unicode.Scalar? =
            switch byte {
            case UInt8(ascii: "\""), UInt8(ascii: "\\"): Unicode.Scalar(byte)
            case 0x0A: "n"
            case 0x0D: "r"
            case 0x09: "t"
            case 0x08 where style != .plain: "b"
            case 0x0C where style != .plain: "f"
            default: nil
            }
        if byte == 0x7F, style != .plain { return bytes.append(byte) }
        bytes.append(UInt8(ascii: "\\"))
        if let short { return bytes.append(UInt8(ascii: short)) }
        bytes.append(contentsOf: "u00".utf8)
        for digit in [byte >> 4, byte & 15] { bytes.append(digit < 10 ? 0x30 + digit : 0x57 + digit) }
    }

    @inline(__always)
    private static func isEscaped(_ byte: UInt8) -> Bool { byte < 0x20 || byte == 0x22 || byte == 0x5C || byte == 0x7F }
}

/// A value of JSON. RFC 8259.
public enum JSONValue: Sendable, Equatable {
    case null
    case boolean(Bool)
    /// A number without fraction and exponent that fits.
    case integer(Int64)
    /// Any other number.
    case number(Double)
    case string(String)
    case array([JSONValue])
    case object(JSONMembers)

    public var string: String? { if case .string(let text) = self { text } else { nil } }

    public var boolean: Bool? { if case .boolean(let value) = self { value } else { nil } }

    /// An integer however it is written: `1.0` and `1e0` are one too.
    public var integer: Int64? {
        switch self {
        case .integer(let value): value
        case .number(let value): Int64(exactly: value)
        default: nil
        }
    }

    public var array: [JSONValue]? { if case .array(let values) = self { values } else { nil } }

    public var object: JSONMembers? { if case .object(let members) = self { members } else { nil } }
}

/// The members of an object, in the order in which they came. Each name is there once, and two names are the same only
/// byte by byte: Swift takes some texts for equal that are written with other characters.
public struct JSONMembers: Sendable, Equatable {
    private let members: [(name: String, value: JSONValue)]

    /// - Parameter members: no two of one name.
    public init(_ members: [(name: String, value: JSONValue)]) { self.members = members }

    public var names: [String] { members.map(\.name) }

    /// O(members).
    public subscript(name: String) -> JSONValue? {
        members.first { $0.name.utf8.elementsEqual(name.utf8) }?.value
    }

    /// The first member whose name is this one but for the case of ASCII letters, as cJSON looks for it. O(members).
    public func any(_ name: String) -> JSONValue? {
        self[name] ?? members.first { Self.folded($0.name).elementsEqual(Self.folded(name)) }?.value
    }

    private static func folded(_ name: String) -> some Sequence<UInt8> {
        name.utf8.lazy.map { (65...90).contains($0) ? $0 | 0x20 : $0 }
    }

    public static func == (left: JSONMembers, right: JSONMembers) -> Bool {
        left.members.elementsEqual(right.members) { $0.name.utf8.elementsEqual($1.name.utf8) && $0.value == $1.value }
    }
}
