import ArgumentParsing
import ClientCommands

/// A command whose options stand in `ClientOption`: its help, manual and completions are made of that table, and `ClientArguments` reads
/// its arguments as mosquitto's programs do.
protocol ClientSubcommand: ParsableCommand {
    static var command: ClientCommand { get }
}

extension ClientSubcommand {
    func definitions() -> [ArgumentDefinition] {
        ClientOption.all(of: Self.command).map { $0.description.definition(help: $0.help(of: Self.command)) } + positional
    }

    private var positional: [ArgumentDefinition] {
        switch Self.command {
        case .pub, .sub, .request: []
        case .mirror: [repeating(ArgumentHelp("The filters to subscribe to. (default: #)", valueName: "filter"), .next)]
        case .respond:
            [
                repeating(
                    ArgumentHelp(
                        "The command that answers: it gets a request's payload on standard input and writes the answer to standard output.",
                        valueName: "command"), .postTerminator)
            ]
        }
    }

    private func repeating(_ help: ArgumentHelp, _ parsing: ArgumentParsingStrategy) -> ArgumentDefinition {
        var definition = ArgumentDefinition(.positional, names: [], valueName: "", help: help)
        definition.isRepeating = true
        definition.parsing = parsing
        return definition
    }
}

extension ClientOption.Description {
    /// The option as the parser of the command line knows options.
    fileprivate func definition(help: String) -> ArgumentDefinition {
        let names = names.map { name -> ArgumentDefinition.Name in
            name.hasPrefix("--") ? .long(String(name.dropFirst(2))) : .short(name[name.index(after: name.startIndex)])
        }
        var definition = ArgumentDefinition(
            value == nil ? .flag : .option, names: names, valueName: value?.split(separator: " ").joined(separator: "-") ?? "",
            help: ArgumentHelp(help))
        definition.parsing = .unconditional
        definition.completion = completion.kind
        return definition
    }
}

extension ClientOption.Completion {
    fileprivate var kind: CompletionKind {
        switch self {
        case .nothing: .none
        case .file: .file
        case .directory: .directory
        case .words(let words): .list(words)
        }
    }
}
