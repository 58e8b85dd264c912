/// One option, flag or positional argument, as the parser, help, manual and completions see it.
package struct ArgumentDefinition {
    package enum Kind: String, Sendable {
        /// A name alone.
        case flag
        /// A name and a value.
        case option
        case positional
    }

    /// A name as it is written after one dash or two.
    package enum Name: Hashable, Sendable {
        case short(Character)
        case long(String)

        package var written: String {
            switch self {
            case .short(let letter): "-\(letter)"
            case .long(let name): "--\(name)"
            }
        }
    }

    package var kind: Kind
    /// None for a positional argument.
    package var names: [Name]
    /// What stands for the value in help.
    package var valueName: String
    package var help: ArgumentHelp
    /// The values that there are; empty if there is no list of them.
    package var values: [String] = []
    /// As help shows it; nil if there is none, or it says nothing.
    package var defaultValue: String?
    package var isOptional = true
    package var isRepeating = false
    package var parsing = ArgumentParsingStrategy.next
    package var completion = CompletionKind.none
    /// The title of the group that it belongs to in help.
    package var group: String?
    /// Takes a value over; nil is a flag's. Throws `ArgumentProblem.invalid` or `ValidationError`.
    var accept: (String?) throws -> Void = { _ in }

    package init(_ kind: Kind, names: [Name], valueName: String, help: ArgumentHelp) {
        self.kind = kind
        self.names = names
        self.valueName = help.valueName ?? valueName
        self.help = help
    }

    /// The definitions of all wrapped properties, those of groups in their place.
    static func all(in arguments: any ParsableArguments) -> [ArgumentDefinition] {
        Mirror(reflecting: arguments).children.flatMap { child -> [ArgumentDefinition] in
            guard let declared = child.value as? any DeclaredArgument, let label = child.label else { return [] }
            // A wrapped property's storage is called as the property, after an underscore.
            return declared.definitions(of: String(label.drop { $0 == "_" }))
        }
    }

    /// `--port <port>`, `-c, --config-file <file>`, `<file>`.
    var label: String {
        switch kind {
        case .positional: "<\(valueName)>"
        case .flag: writtenNames
        case .option: "\(writtenNames) <\(valueName)>"
        }
    }

    /// As messages show it: by the name that was typed.
    func usage(named name: String) -> String { kind == .positional ? label : kind == .flag ? name : "\(name) <\(valueName)>" }

    private var writtenNames: String {
        let short = names.filter { if case .short = $0 { true } else { false } }
        let long = names.filter { if case .long = $0 { true } else { false } }
        return (short + long).map(\.written).joined(separator: ", ")
    }

    /// The name that usage and messages show: the first long one, else the first.
    var preferredName: String {
        (names.first { if case .long = $0 { true } else { false } } ?? names.first)?.written ?? valueName
    }

    /// As help tells it: what it is, its values and its default.
    var helpText: String {
        var parts: [String] = []
        if !values.isEmpty { parts.append("values: \(values.joined(separator: ", "))") }
        if let defaultValue { parts.append("default: \(defaultValue)") }
        let remark = parts.isEmpty ? "" : "(\(parts.joined(separator: "; ")))"
        return [help.abstract, remark].filter { !$0.isEmpty }.joined(separator: " ")
    }
}

/// What help says of an argument.
package struct ArgumentHelp: Sendable, ExpressibleByStringInterpolation {
    package var abstract: String
    /// What stands for the value; nil for the argument's own name.
    package var valueName: String?

    package init(_ abstract: String, valueName: String? = nil) {
        self.abstract = abstract
        self.valueName = valueName
    }

    package init(stringLiteral value: String) { self.init(value) }
}

/// How a value is found.
package enum ArgumentParsingStrategy: Sendable {
    /// The next word, unless it begins with a dash.
    case next
    /// The next word, whatever it is.
    case unconditional
    /// What stands behind `--`.
    case postTerminator
}

/// The names of an option or flag: `.short`, `[.short, .long]`, `.customLong("for")`.
package struct NameSpecification: Sendable, ExpressibleByArrayLiteral {
    enum Part: Sendable {
        case short
        case long
        case name(ArgumentDefinition.Name)
    }

    let parts: [Part]

    init(_ parts: [Part]) { self.parts = parts }

    package init(arrayLiteral elements: NameSpecification...) { parts = elements.flatMap(\.parts) }

    package init(_ names: [ArgumentDefinition.Name]) { parts = names.map(Part.name) }

    package static var short: Self { Self([.short]) }
    package static var long: Self { Self([.long]) }
    package static var shortAndLong: Self { Self([.short, .long]) }

    package static func customShort(_ letter: Character) -> Self { Self([.name(.short(letter))]) }

    package static func customLong(_ name: String) -> Self { Self([.name(.long(name))]) }

    func names(of property: String) -> [ArgumentDefinition.Name] {
        let long = Self.dashed(property)
        return parts.map { part in
            switch part {
            case .short: .short(long.first ?? "?")
            case .long: .long(long)
            case .name(let name): name
            }
        }
    }

    /// `configFile` becomes `config-file`.
    static func dashed(_ property: String) -> String {
        property.reduce(into: "") { text, letter in
            if letter.isUppercase, !text.isEmpty { text.append("-") }
            text += letter.lowercased()
        }
    }
}

/// What a shell offers for a value.
package enum CompletionKind: Sendable {
    case none
    case file
    case directory
    case list([String])
    /// Asks the program: what begins with the text, given the words typed so far.
    case custom(@Sendable (_ words: [String], _ prefix: String) -> [String])
}

/// A value that can be read from a word of the command line.
package protocol ExpressibleByArgument {
    init?(argument: String)

    /// As help shows it as a default.
    var defaultValueDescription: String { get }

    /// All values, where they can be listed.
    static var allValueStrings: [String] { get }
}

extension ExpressibleByArgument {
    package var defaultValueDescription: String { "\(self)" }
    package static var allValueStrings: [String] { [] }
}

extension ExpressibleByArgument where Self: RawRepresentable, RawValue == String {
    package init?(argument: String) { self.init(rawValue: argument) }
    package var defaultValueDescription: String { rawValue }
}

extension ExpressibleByArgument where Self: CaseIterable & RawRepresentable, RawValue == String {
    package static var allValueStrings: [String] { allCases.map(\.rawValue) }
}

extension ExpressibleByArgument where Self: LosslessStringConvertible {
    package init?(argument: String) { self.init(argument) }
}

extension String: ExpressibleByArgument {
    package init?(argument: String) { self = argument }
}
extension Int: ExpressibleByArgument {}
extension Int32: ExpressibleByArgument {}
extension UInt8: ExpressibleByArgument {}
extension UInt16: ExpressibleByArgument {}
extension UInt64: ExpressibleByArgument {}
extension Double: ExpressibleByArgument {}
