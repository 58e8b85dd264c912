/// One field of a message: a name, which is compared without regard to case, and a value.
public struct HTTPField: Sendable, Equatable {
    public let name: String
    /// Without blanks around it. Never holds a control byte but a tab: those that it is made with become blanks.
    public let value: String

    public init(_ name: String, _ value: String) {
        self.name = name
        let isClean = value.utf8.allSatisfy { HTTPText.isFieldByte($0) }
        self.value = isClean ? value : String(decoding: value.utf8.map { HTTPText.isFieldByte($0) ? $0 : 0x20 }, as: UTF8.self)
    }

    /// Whether it has that name.
    public func isNamed(_ other: String) -> Bool {
        name.utf8.count == other.utf8.count
            && zip(name.utf8, other.utf8).allSatisfy { HTTPText.lowercased($0) == HTTPText.lowercased($1) }
    }
}

/// The fields of a message, in the order in which they came. Linear in their number: a head has few.
public struct HTTPFields: Sendable, Equatable {
    public private(set) var all: [HTTPField] = []

    public init() {}

    public init(_ fields: [HTTPField]) { all = fields }

    /// The value of a field, several of the same name joined by commas; nil when there is none. Setting it replaces all of that name.
    public subscript(name: String) -> String? {
        get {
            let values = values(of: name)
            return values.isEmpty ? nil : values.joined(separator: ", ")
        }
        set {
            all.removeAll { $0.isNamed(name) }
            if let newValue { all.append(HTTPField(name, newValue)) }
        }
    }

    /// Adds a field behind the others, of the same name too.
    public mutating func append(_ name: String, _ value: String) { all.append(HTTPField(name, value)) }

    public mutating func append(contentsOf fields: HTTPFields) { all += fields.all }

    /// The values of all fields of that name.
    public func values(of name: String) -> [String] { all.filter { $0.isNamed(name) }.map(\.value) }

    /// How often a field stands there.
    public func count(of name: String) -> Int { all.count { $0.isNamed(name) } }

    /// The members of a field whose value is a list, without blanks around them and without empty ones. Commas in quoted text do not
    /// part members.
    public func list(_ name: String) -> [String] {
        values(of: name).flatMap { HTTPText.members(of: $0) }
    }

    /// Whether a field whose value is a list names that word, in any case.
    public func names(_ word: String, in name: String) -> Bool { list(name).contains { HTTPText.isSame($0, word) } }
}

extension HTTPFields: ExpressibleByDictionaryLiteral {
    public init(dictionaryLiteral elements: (String, String)...) { all = elements.map { HTTPField($0.0, $0.1) } }
}
