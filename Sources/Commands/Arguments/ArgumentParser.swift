import Platform

/// An error in the words of a command line. Arguments are named as help writes them: `--port <port>`, `<file>`.
package enum ArgumentProblem: Error, CustomStringConvertible {
    case unknownOption(String, known: [String])
    case missingValue(usage: String, help: String)
    case unexpectedValue(name: String, value: String)
    case invalid(String, usage: String, help: String, values: [String])
    case missing(String)
    case unexpected(String)

    /// A word that is no value of the argument's type; the parser says whose.
    struct Invalid: Error {
        let values: [String]
    }

    package var description: String {
        switch self {
        case .unknownOption(let name, let known):
            let nearest = name.hasPrefix("--") ? NearestName.nearest(to: name, among: known) : nil
            return "Unknown option '\(name)'" + (nearest.map { ". Did you mean '\($0)'?" } ?? "")
        case .missingValue(let usage, let help):
            return "Missing value for '\(usage)'\(Self.helpLine(help, usage))"
        case .unexpectedValue(let name, let value):
            return "The option '\(name)' takes no value, and '\(value)' is given."
        case .invalid(let word, let usage, let help, let values):
            return "The value '\(word)' is invalid for '\(usage)'\(Self.choice(values))\(Self.helpLine(help, usage))"
        case .missing(let usage):
            return "Missing expected argument '\(usage)'"
        case .unexpected(let word):
            return "Unexpected argument '\(word)'"
        }
    }

    private static func choice(_ values: [String]) -> String {
        guard let last = values.last else { return "" }
        let others = values.dropLast().map { "'\($0)'" }.joined(separator: ", ")
        return ". Please provide " + (others.isEmpty ? "'\(last)'." : "one of \(others) or '\(last)'.")
    }

    private static func helpLine(_ help: String, _ usage: String) -> String { help.isEmpty ? "" : "\nHelp:  \(usage)  \(help)" }
}

/// Reads words into a set of arguments.
struct ArgumentParser {
    private let definitions: [ArgumentDefinition]
    private let hasShortHelp: Bool
    private let hasVersion: Bool
    private var positional: ArraySlice<ArgumentDefinition>
    /// By index in `definitions`; positional arguments by their label.
    private var given: Set<String> = []

    /// Throws `ArgumentProblem`, `ValidationError` or `CleanExit`.
    static func parse(_ arguments: some ParsableArguments, _ words: [String], hasShortHelp: Bool, hasVersion: Bool) throws {
        var parser = ArgumentParser(arguments.definitions(), hasShortHelp, hasVersion)
        try parser.read(words)
        try arguments.validateAll()
    }

    private init(_ definitions: [ArgumentDefinition], _ hasShortHelp: Bool, _ hasVersion: Bool) {
        self.definitions = definitions
        self.hasShortHelp = hasShortHelp
        self.hasVersion = hasVersion
        positional = definitions.filter { $0.kind == .positional }[...]
    }

    private mutating func read(_ words: [String]) throws {
        var rest = words[...]
        // Whoever asks for help gets it, whatever else is wrong.
        let before = words.prefix { $0 != "--" }
        if before.contains("--help") || hasShortHelp && before.contains("-h") && !isDefined("-h") { throw CleanExit.help }
        if hasVersion, before.contains("--version") { throw CleanExit.version }
        while let word = rest.popFirst() {
            if word == "--" {
                for word in rest { try parsePositional(word) }
                break
            } else if word.hasPrefix("--") {
                try parseLong(word, &rest)
            } else if word.hasPrefix("-"), word.count > 1 {
                try parseShort(word, &rest)
            } else {
                try parsePositional(word)
            }
        }
        for definition in definitions where !definition.isOptional && !given.contains(definition.label) {
            throw ArgumentProblem.missing(definition.usage(named: definition.preferredName))
        }
    }

    private func isDefined(_ written: String) -> Bool { definition(written) != nil }

    private func definition(_ written: String) -> ArgumentDefinition? {
        definitions.first { $0.names.contains { $0.written == written } }
    }

    private mutating func parseLong(_ word: String, _ rest: inout ArraySlice<String>) throws {
        let parts = word.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
        guard let definition = definition(parts[0]) else { throw unknown(parts[0]) }
        if definition.kind == .flag {
            guard parts.count == 1 else { throw ArgumentProblem.unexpectedValue(name: parts[0], value: parts[1]) }
            try take(nil, definition, name: parts[0])
        } else {
            let value = parts.count > 1 ? parts[1] : try value(of: definition, name: parts[0], &rest)
            try take(value, definition, name: parts[0])
        }
    }

    /// One letter, or flags one after the other, of which the last may be an option with its value: `-v`, `-vp 1883`,
    /// `-p1883`, `-p=1883`.
    private mutating func parseShort(_ word: String, _ rest: inout ArraySlice<String>) throws {
        var letters = word.dropFirst()
        while let letter = letters.popFirst() {
            let name = "-\(letter)"
            guard let definition = definition(name) else { throw unknown(letters.count == word.count - 2 ? word : name) }
            if definition.kind == .flag {
                guard letters.first != "=" else {
                    throw ArgumentProblem.unexpectedValue(name: name, value: String(letters.dropFirst()))
                }
                try take(nil, definition, name: name)
            } else {
                if letters.first == "=" { letters.removeFirst() }
                let value = letters.isEmpty ? try value(of: definition, name: name, &rest) : String(letters)
                return try take(value, definition, name: name)
            }
        }
    }

    private func value(of definition: ArgumentDefinition, name: String, _ rest: inout ArraySlice<String>) throws -> String {
        guard let next = rest.first, definition.parsing == .unconditional || !next.hasPrefix("-") || next == "-" else {
            throw ArgumentProblem.missingValue(usage: definition.usage(named: name), help: definition.help.abstract)
        }
        rest.removeFirst()
        return next
    }

    private mutating func parsePositional(_ word: String) throws {
        guard let next = positional.first else { throw ArgumentProblem.unexpected(word) }
        try take(word, next, name: next.label)
        if !next.isRepeating { positional.removeFirst() }
    }

    private mutating func take(_ value: String?, _ definition: ArgumentDefinition, name: String) throws {
        given.insert(definition.label)
        do {
            try definition.accept(value)
        } catch let invalid as ArgumentProblem.Invalid {
            throw ArgumentProblem.invalid(
                value ?? "", usage: definition.usage(named: name), help: definition.help.abstract, values: invalid.values)
        }
    }

    private func unknown(_ name: String) -> ArgumentProblem {
        .unknownOption(name, known: definitions.flatMap { $0.names.map(\.written) })
    }
}

extension ParsableArguments {
    /// The arguments that the words make. Throws `ArgumentProblem`, `ValidationError` or `CleanExit`.
    package static func parse(_ words: [String], hasShortHelp: Bool = true, hasVersion: Bool = false) throws -> Self {
        let arguments = Self()
        try ArgumentParser.parse(arguments, words, hasShortHelp: hasShortHelp, hasVersion: hasVersion)
        return arguments
    }

    /// How many words at the beginning are options of these arguments, with their values.
    package static func countOfLeadingOptions(_ words: [String]) -> Int {
        let definitions = Self().definitions()
        var index = 0
        while index < words.count, words[index].hasPrefix("-") {
            let name = String(words[index].prefix { $0 != "=" })
            guard let definition = definitions.first(where: { $0.names.contains { $0.written == name } }) else { break }
            index += definition.kind == .flag || name != words[index] ? 1 : 2
        }
        return min(index, words.count)
    }
}
