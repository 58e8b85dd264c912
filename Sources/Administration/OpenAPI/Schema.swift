internal import JSON

/// A value of the API as JSON Schema describes it.
struct Schema: Sendable {
    private(set) var members: [(name: String, value: JSONValue)]

    init(_ members: [(name: String, value: JSONValue)]) { self.members = members }

    var json: JSONValue { .object(JSONMembers(members)) }

    // MARK: Kinds

    static let text = Schema(type: "string")
    static let boolean = Schema(type: "boolean")
    static let number = Schema(type: "number")
    static let anyInteger = Schema(type: "integer")
    /// 0 or more.
    static let count = integer(0...Int.max)

    private init(type: String) { members = [("type", .string(type))] }

    /// Characters, of which a text of bytes may have fewer.
    static func text(
        _ length: ClosedRange<Int>? = nil, pattern: String? = nil, format: String? = nil
    ) -> Schema {
        var schema = text
        if let length {
            if length.lowerBound > 0 { schema.set("minLength", length.lowerBound) }
            if length.upperBound < .max { schema.set("maxLength", length.upperBound) }
        }
        if let pattern { schema.set("pattern", .string(pattern)) }
        if let format { schema.set("format", .string(format)) }
        return schema
    }

    static func integer(_ range: ClosedRange<Int>) -> Schema {
        var schema = anyInteger
        if range.lowerBound > .min { schema.set("minimum", range.lowerBound) }
        if range.upperBound < .max { schema.set("maximum", range.upperBound) }
        return schema
    }

    static func choice(_ words: [String]) -> Schema { text.with("enum", .array(words.map { .string($0) })) }

    static func number(of numbers: [Int]) -> Schema { anyInteger.with("enum", .array(numbers.map { .integer(Int64($0)) })) }

    static func list(_ element: Schema) -> Schema { Schema(type: "array").with("items", element.json) }

    /// One that has a name in the description.
    static func named(_ name: String) -> Schema { Schema([("$ref", .string("#/components/schemas/\(name)"))]) }

    /// An object with these members and no others.
    static func object(_ members: [Member]) -> Schema {
        var schema = Schema(type: "object")
        let required = members.filter(\.isRequired).map(\.name)
        if !required.isEmpty { schema.set("required", .array(required.map { .string($0) })) }
        schema.set("properties", .object(JSONMembers(members.map { ($0.name, $0.schema.json) })))
        schema.set("additionalProperties", .boolean(false))
        return schema
    }

    /// An object whose members have any name.
    static func dictionary(_ value: Schema) -> Schema { Schema(type: "object").with("additionalProperties", value.json) }

    static func any(of schemas: [Schema]) -> Schema { Schema([("anyOf", .array(schemas.map(\.json)))]) }

    static func one(of schemas: [Schema]) -> Schema { Schema([("oneOf", .array(schemas.map(\.json)))]) }

    // MARK: More of one

    private mutating func set(_ name: String, _ value: Int) { set(name, .integer(Int64(value))) }

    private mutating func set(_ name: String, _ value: JSONValue) { members.append((name, value)) }

    func with(_ name: String, _ value: JSONValue) -> Schema { Schema(members + [(name, value)]) }

    func described(_ words: String?) -> Schema { words.map { with("description", .string($0)) } ?? self }

    func defaulting(to value: JSONValue) -> Schema { with("default", value) }

    /// That one, or null.
    var orNull: Schema {
        let isPlain = members.contains { $0.name == "type" } && !members.contains { $0.name == "enum" || $0.name == "properties" }
        guard isPlain else { return .any(of: [self, Schema(type: "null")]) }
        return Schema(members.map { $0.name == "type" ? ($0.name, .array([$0.value, .string("null")])) : $0 })
    }

    /// That object, which may have other members too.
    var open: Schema { open(to: nil) }

    /// That object, which may have other members too of one kind; nil for any.
    func open(to others: Schema?) -> Schema {
        Schema(members.map { $0.name == "additionalProperties" ? ($0.name, others?.json ?? .boolean(true)) : $0 })
    }

    /// The names of an object's members, of several that it may be those of all.
    var memberNames: [String] {
        var names: [String] = []
        for (name, value) in members {
            switch name {
            case "properties": names += value.object?.names ?? []
            case "oneOf":
                for part in value.array ?? [] {
                    names += part.object?["properties"]?.object?.names.filter { !names.contains($0) } ?? []
                }
            default: break
            }
        }
        return names
    }

    /// A member of an object.
    struct Member: Sendable {
        let name: String
        let schema: Schema
        var isRequired = true

        init(_ name: String, _ schema: Schema, isRequired: Bool = true) {
            (self.name, self.schema, self.isRequired) = (name, schema, isRequired)
        }

        /// One that may be left out.
        static func optional(_ name: String, _ schema: Schema) -> Member { Member(name, schema, isRequired: false) }
    }
}

extension FieldKind {
    var schema: Schema {
        switch self {
        case .text: .text
        case .choice(let words): .choice(words)
        case .boolean: .boolean
        case .integer(let range, _): .integer(range)
        case .number(let numbers): .number(of: numbers)
        case .decimal(let isNegative): isNegative ? .number : .number.with("minimum", .integer(0))
        case .time: .named("Time")
        case .named(let name): .named(name)
        case .object(let members): .object(members.map(\.member))
        case .dictionary(let value, let isNullable): .dictionary(isNullable ? value.schema.orNull : value.schema)
        case .list(let element): .list(element.schema)
        }
    }
}

extension FieldDescription {
    var member: Schema.Member {
        Schema.Member(name, (isNullable ? kind.schema.orNull : kind.schema).described(help), isRequired: isRequired)
    }
}

extension Resource {
    /// As answers have it; with `fields=` only its key is sure to be there.
    var schema: Schema {
        let members = members.map { member in
            Schema.Member(
                member.member.name, member.member.schema, isRequired: member.isRequired && (key ?? member.name) == member.name)
        }
        return Schema.object(members).described(help)
    }
}
