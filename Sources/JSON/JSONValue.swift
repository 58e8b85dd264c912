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

/// The members of an object, in the order in which they came. Each name is there once, and two names are the same only byte by byte: Swift takes
/// some texts for equal that are written with other characters.
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
