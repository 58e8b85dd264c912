import ArgumentParser
import ClientCommands

/// A command whose options stand in `ClientOption`: its help, manual and completions are made of that table, and `ClientArguments` reads
/// its arguments as mosquitto's programs do.
protocol ClientSubcommand: ParsableCommand, CustomReflectable {
    static var command: ClientCommand { get }

    init()
}

extension ClientSubcommand {
    /// The parser of the command line looks for options in the mirror.
    var customMirror: Mirror {
        let options = ClientOption.all(of: Self.command).map { option -> Mirror.Child in
            (label: "_\(option.rawValue)", value: option.description.wrapper)
        }
        return Mirror(self, children: options + positional)
    }

    private var positional: [Mirror.Child] {
        switch Self.command {
        case .pub, .sub, .request: []
        case .mirror:
            [("_filters", Argument<[String]>(help: ArgumentHelp("The filters to subscribe to. (default: #)", valueName: "filter")))]
        case .respond:
            [
                (
                    "_program",
                    Argument<[String]>(
                        parsing: .postTerminator,
                        help: ArgumentHelp(
                            "A command that answers: a request's payload is its standard input, its standard output the answer.",
                            valueName: "command"))
                )
            ]
        }
    }

    /// For the library's own check of the mirror's names; nothing is decoded.
    init(from decoder: any Decoder) throws {
        _ = try decoder.container(keyedBy: AnyKey.self)
        self.init()
    }

    /// Not reached: `CommandRun` hands the arguments to `ClientArguments`.
    func run() throws { throw CleanExit.helpRequest(self) }
}

private struct AnyKey: CodingKey {
    let stringValue: String
    var intValue: Int? { nil }

    init?(stringValue: String) { self.stringValue = stringValue }

    init?(intValue: Int) { nil }
}

extension ClientOption.Description {
    /// The option as the parser of the command line knows options.
    fileprivate var wrapper: Any {
        let specification = NameSpecification(
            names.map { name in
                name.hasPrefix("--")
                    ? .customLong(String(name.dropFirst(2))) : .customShort(name[name.index(after: name.startIndex)])
            })
        guard let value else { return Flag(wrappedValue: false, name: specification, help: ArgumentHelp(stringLiteral: help)) }
        return Option<String?>(
            name: specification, parsing: .unconditional,
            help: ArgumentHelp(help, valueName: value.split(separator: " ").joined(separator: "-")),
            completion: completion.kind)
    }
}

extension ClientOption.Completion {
    fileprivate var kind: CompletionKind? {
        switch self {
        case .nothing: nil
        case .file: .file()
        case .directory: .directory
        case .words(let words): .list(words)
        }
    }
}
