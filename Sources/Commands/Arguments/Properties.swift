/// A wrapped property that declares arguments. Its value stands in a box, so that a parser that has only the property's
/// mirror can set it.
protocol DeclaredArgument {
    func definitions(of property: String) -> [ArgumentDefinition]
}

/// What a wrapped property declares, and its value. A class: commands have dozens of such properties, and are copied.
private final class Declaration<Value> {
    /// nil until a value without a default has been given; the parser has checked that before anybody reads it.
    private var storage: Value?
    private var definition: ArgumentDefinition
    private let names: NameSpecification?

    var value: Value {
        guard let storage else { preconditionFailure("an argument is read before it was parsed") }
        return storage
    }

    /// One of whose words each is an element: `put` makes it the value, or one more of it.
    convenience init<Element: ExpressibleByArgument>(
        _ kind: ArgumentDefinition.Kind, _ names: NameSpecification?, _ value: Value?, shown: Element?, of: Element.Type,
        isRepeating: Bool = false, parsing: ArgumentParsingStrategy, help: ArgumentHelp?, completion: CompletionKind?,
        put: @escaping (Element, inout Value?) -> Void
    ) {
        self.init(kind, names, value, parsing: parsing, help: help, completion: completion) { text, value in
            guard let element = Element(argument: text) else { throw ArgumentProblem.Invalid(values: Element.allValueStrings) }
            put(element, &value)
        }
        definition.isRepeating = isRepeating
        definition.values = Element.allValueStrings
        let text = shown?.defaultValueDescription ?? ""
        definition.defaultValue = text.isEmpty ? nil : text
        if completion == nil, !definition.values.isEmpty { definition.completion = .list(definition.values) }
    }

    init(
        _ kind: ArgumentDefinition.Kind, _ names: NameSpecification?, _ value: Value?, parsing: ArgumentParsingStrategy,
        help: ArgumentHelp?, completion: CompletionKind?, take: @escaping (String, inout Value?) throws -> Void
    ) {
        storage = value
        self.names = names
        definition = ArgumentDefinition(kind, names: [], valueName: "", help: help ?? "")
        definition.parsing = parsing
        definition.completion = completion ?? .none
        definition.isOptional = value != nil
        definition.accept = { [unowned self] text in try take(text ?? "", &storage) }
    }

    func definitions(of property: String) -> [ArgumentDefinition] {
        var named = definition
        named.names = names?.names(of: property) ?? []
        if named.valueName.isEmpty { named.valueName = Self.valueName(of: named.names) ?? NameSpecification.dashed(property) }
        return [named]
    }

    private static func valueName(of names: [ArgumentDefinition.Name]) -> String? {
        for case .long(let name) in names { return name }
        for case .short(let letter) in names { return String(letter) }
        return nil
    }
}

/// `--name value`.
@propertyWrapper
package struct Option<Value>: DeclaredArgument {
    private let declaration: Declaration<Value>

    package var wrappedValue: Value { declaration.value }

    func definitions(of property: String) -> [ArgumentDefinition] { declaration.definitions(of: property) }

    package init(
        wrappedValue: Value, name: NameSpecification = .long, parsing: ArgumentParsingStrategy = .next, help: ArgumentHelp? = nil,
        completion: CompletionKind? = nil
    ) where Value: ExpressibleByArgument {
        declaration = Declaration(
            .option, name, wrappedValue, shown: wrappedValue, of: Value.self, parsing: parsing, help: help, completion: completion
        ) { $1 = $0 }
    }

    /// One that may be absent.
    package init<Element: ExpressibleByArgument>(
        name: NameSpecification = .long, parsing: ArgumentParsingStrategy = .next, help: ArgumentHelp? = nil,
        completion: CompletionKind? = nil
    ) where Value == Element? {
        declaration = Declaration(
            .option, name, .some(nil), shown: nil, of: Element.self, parsing: parsing, help: help, completion: completion
        ) { $1 = .some($0) }
    }

    /// One that may be given again.
    package init<Element: ExpressibleByArgument>(
        wrappedValue: [Element], name: NameSpecification = .long, parsing: ArgumentParsingStrategy = .next,
        help: ArgumentHelp? = nil,
        completion: CompletionKind? = nil
    ) where Value == [Element] {
        declaration = Declaration(
            .option, name, wrappedValue, shown: nil, of: Element.self, isRepeating: true, parsing: parsing, help: help,
            completion: completion
        ) { $1 = ($1 ?? []) + [$0] }
    }

    /// One whose text `transform` reads, which throws `ValidationError` when it cannot.
    package init(
        wrappedValue: Value, name: NameSpecification = .long, help: ArgumentHelp? = nil, completion: CompletionKind? = nil,
        transform: @escaping (String) throws -> Value
    ) {
        declaration = Declaration(.option, name, wrappedValue, parsing: .next, help: help, completion: completion) {
            $1 = try transform($0)
        }
    }

    /// One that may be absent, whose text `transform` reads.
    package init<Element>(
        name: NameSpecification = .long, help: ArgumentHelp? = nil, completion: CompletionKind? = nil,
        transform: @escaping (String) throws -> Element
    ) where Value == Element? {
        declaration = Declaration(.option, name, .some(nil), parsing: .next, help: help, completion: completion) {
            $1 = .some(try transform($0))
        }
    }
}

/// `--name`.
@propertyWrapper
package struct Flag: DeclaredArgument {
    private let declaration: Declaration<Bool>

    package var wrappedValue: Bool { declaration.value }

    func definitions(of property: String) -> [ArgumentDefinition] { declaration.definitions(of: property) }

    package init(wrappedValue: Bool, name: NameSpecification = .long, help: ArgumentHelp? = nil) {
        declaration = Declaration(.flag, name, wrappedValue, parsing: .next, help: help, completion: nil) { $1 = true }
    }
}

/// A word by its place.
@propertyWrapper
package struct Argument<Value>: DeclaredArgument {
    private let declaration: Declaration<Value>

    package var wrappedValue: Value { declaration.value }

    func definitions(of property: String) -> [ArgumentDefinition] { declaration.definitions(of: property) }

    package init(wrappedValue: Value, help: ArgumentHelp? = nil, completion: CompletionKind? = nil)
    where Value: ExpressibleByArgument {
        declaration = Declaration(
            .positional, nil, wrappedValue, shown: wrappedValue, of: Value.self, parsing: .next, help: help, completion: completion
        ) { $1 = $0 }
    }

    /// One that has to be given.
    package init(help: ArgumentHelp? = nil, completion: CompletionKind? = nil) where Value: ExpressibleByArgument {
        declaration = Declaration(
            .positional, nil, nil, shown: nil, of: Value.self, parsing: .next, help: help, completion: completion
        ) { $1 = $0 }
    }

    /// One that may be absent.
    package init<Element: ExpressibleByArgument>(
        help: ArgumentHelp? = nil, completion: CompletionKind? = nil
    ) where Value == Element? {
        declaration = Declaration(
            .positional, nil, .some(nil), shown: nil, of: Element.self, parsing: .next, help: help, completion: completion
        ) { $1 = .some($0) }
    }

    /// As many as are given.
    package init<Element: ExpressibleByArgument>(
        wrappedValue: [Element], parsing: ArgumentParsingStrategy = .next, help: ArgumentHelp? = nil,
        completion: CompletionKind? = nil
    ) where Value == [Element] {
        declaration = Declaration(
            .positional, nil, wrappedValue, shown: nil, of: Element.self, isRepeating: true, parsing: parsing, help: help,
            completion: completion
        ) { $1 = ($1 ?? []) + [$0] }
    }

    /// At least one.
    package init<Element: ExpressibleByArgument>(
        help: ArgumentHelp? = nil, completion: CompletionKind? = nil
    ) where Value == [Element] {
        declaration = Declaration(
            .positional, nil, nil, shown: nil, of: Element.self, isRepeating: true, parsing: .next, help: help,
            completion: completion
        ) { $1 = ($1 ?? []) + [$0] }
    }
}

/// The arguments of another type, in this place.
@propertyWrapper
package struct OptionGroup<Group: ParsableArguments>: DeclaredArgument, AnyOptionGroup {
    package let wrappedValue: Group
    private let title: String?

    var arguments: any ParsableArguments { wrappedValue }

    /// With a title its options stand under that in help, behind the others.
    package init(title: String? = nil) {
        wrappedValue = Group()
        self.title = title
    }

    func definitions(of property: String) -> [ArgumentDefinition] {
        wrappedValue.definitions().map { definition in
            var definition = definition
            if definition.kind != .positional { definition.group = title ?? definition.group }
            return definition
        }
    }
}

/// A group whose type is not known.
protocol AnyOptionGroup {
    var arguments: any ParsableArguments { get }
}

extension ParsableArguments {
    /// Asks all groups, and then this itself.
    func validateAll() throws {
        for child in Mirror(reflecting: self).children {
            if let group = child.value as? any AnyOptionGroup { try group.arguments.validateAll() }
        }
        try validate()
    }
}
