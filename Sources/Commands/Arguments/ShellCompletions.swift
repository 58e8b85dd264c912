/// Scripts by which a shell completes the program's words. They know all names; what a broker alone knows they ask the
/// program for, by `PROGRAM ---complete WORDS… -- TEXT`.
package enum ShellCompletions {
    package static let shells = ["bash", "zsh", "fish"]
    /// The first argument by which the scripts ask the program.
    package static let question = "---complete"

    /// nil for a shell that is not known.
    package static func script(for shell: String, of root: any ParsableCommand.Type) -> String? {
        let commands = CompletedCommand.all(under: CommandPath([root]))
        return switch shell {
        case "bash": bash(commands, root.configuration.commandName)
        case "zsh": zsh(commands, root.configuration.commandName)
        case "fish": fish(commands, root.configuration.commandName)
        default: nil
        }
    }

    /// What the program answers to its scripts: the words that the argument can be which is being typed. `words` are
    /// those before it.
    package static func answer(_ root: any ParsableCommand.Type, _ words: [String], prefix: String) -> [String] {
        var path = CommandPath([root])
        var index = 0
        while index < words.count,
            let next = path.configuration.subcommands.first(where: { $0.configuration.commandName == words[index] })
        {
            path = path.down(to: next)
            index += 1
        }
        let definitions = path.definitions
        var awaited = definitions.first { $0.kind == .positional }
        for option in definitions where option.kind == .option && option.names.contains(where: { $0.written == words.last }) {
            awaited = option
        }
        guard let awaited, case .custom(let complete) = awaited.completion else { return [] }
        return complete(words, prefix)
    }

    /// A command by its whole name, with what may be typed in it.
    private struct CompletedCommand {
        let name: String
        let subcommands: [CommandConfiguration]
        let definitions: [ArgumentDefinition]

        static func all(under path: CommandPath) -> [CompletedCommand] {
            let below = path.configuration.subcommands.filter { $0.configuration.shouldDisplay }
            let completed = CompletedCommand(
                name: path.name, subcommands: below.map { $0.configuration }, definitions: path.definitions)
            return [completed] + below.flatMap { all(under: path.down(to: $0)) }
        }

        var options: [ArgumentDefinition] { definitions.filter { $0.kind != .positional } }

        var positional: CompletionKind { definitions.first { $0.kind == .positional }?.completion ?? .none }
    }

    private static func quoted(_ text: String) -> String {
        "'" + text.split(separator: "'", omittingEmptySubsequences: false).joined(separator: #"'\''"#) + "'"
    }

    // MARK: bash

    private static func bash(_ commands: [CompletedCommand], _ program: String) -> String {
        """
        # Completion of \(program) for bash.
        _\(program)() {
            local current="${COMP_WORDS[COMP_CWORD]}" before="" place=\(program) index
            COMPREPLY=()
            [ "$COMP_CWORD" -gt 1 ] && before="${COMP_WORDS[COMP_CWORD - 1]}"
            for ((index = 1; index < COMP_CWORD; index++)); do
        \(commandCases(commands, word: "${COMP_WORDS[index]}", indent: "        "))
            done
            case "$place $before" in
        \(commands.flatMap { completed in values(completed) { bashOffer($0, program) } }.joined(separator: "\n"))
            esac
            case "$place" in
        \(commands.map { completed in bashCase(completed, program) }.joined(separator: "\n"))
            esac
        }
        complete -F _\(program) \(program)

        """
    }

    /// Lines that follow the subcommands' names down.
    private static func commandCases(_ commands: [CompletedCommand], word: String, indent: String) -> String {
        let names = commands.dropFirst().map { quoted($0.name) }
        guard !names.isEmpty else { return "\(indent):" }
        return """
            \(indent)case "$place \(word)" in
            \(indent)    \(names.joined(separator: "|"))) place="$place \(word)" ;;
            \(indent)esac
            """
    }

    /// A line of a `case` for each option of the place that takes a value.
    private static func values(_ completed: CompletedCommand, _ offer: (CompletionKind) -> String) -> [String] {
        completed.options.filter { $0.kind == .option }.map { option in
            let patterns = option.names.map { quoted("\(completed.name) \($0.written)") }.joined(separator: "|")
            return "        \(patterns)) \(offer(option.completion)) return ;;"
        }
    }

    private static func bashOffer(_ kind: CompletionKind, _ program: String) -> String {
        switch kind {
        case .none: ""
        case .file: #"COMPREPLY=($(compgen -f -- "$current"));"#
        case .directory: #"COMPREPLY=($(compgen -d -- "$current"));"#
        case .list(let words): "COMPREPLY=($(compgen -W \(quoted(words.joined(separator: " "))) -- \"$current\"));"
        case .custom:
            #"mapfile -t COMPREPLY < <("${COMP_WORDS[0]}" \#(question) "${COMP_WORDS[@]:1:COMP_CWORD-1}" -- "$current" 2>/dev/null);"#
        }
    }

    private static func bashCase(_ completed: CompletedCommand, _ program: String) -> String {
        let names = completed.options.flatMap { $0.names.map(\.written) } + completed.subcommands.map(\.commandName)
        let more = bashOffer(completed.positional, program)
        // Names of options where a dash is typed, and of commands; else what the first positional argument can be.
        let words = "COMPREPLY=($(compgen -W \(quoted(names.joined(separator: " "))) -- \"$current\"))"
        guard !more.isEmpty else { return "        \(quoted(completed.name))) \(words) ;;" }
        return "        \(quoted(completed.name))) case \"$current\" in -*) \(words) ;; *) \(more) ;; esac ;;"
    }

    // MARK: zsh

    private static func zsh(_ commands: [CompletedCommand], _ program: String) -> String {
        """
        #compdef \(program)
        # Completion of \(program) for zsh.
        _\(program)() {
            local current="${words[CURRENT]}" before="${words[CURRENT-1]}" place=\(program) index
            for ((index = 2; index < CURRENT; index++)); do
        \(commandCases(commands, word: "${words[index]}", indent: "        "))
            done
            case "$place $before" in
        \(commands.flatMap { completed in values(completed) { zshOffer($0, program) } }.joined(separator: "\n"))
            esac
            case "$place" in
        \(commands.map { completed in zshCase(completed, program) }.joined(separator: "\n"))
            esac
        }
        _\(program) "$@"

        """
    }

    private static func zshOffer(_ kind: CompletionKind, _ program: String) -> String {
        switch kind {
        case .none: ""
        case .file: "_files;"
        case .directory: "_files -/;"
        case .list(let words): "compadd -- \(words.map(quoted).joined(separator: " "));"
        case .custom:
            #"compadd -- "${(@f)$("${words[1]}" \#(question) "${(@)words[2,CURRENT-1]}" -- "$current" 2>/dev/null)}";"#
        }
    }

    private static func zshCase(_ completed: CompletedCommand, _ program: String) -> String {
        var described: [String] = []
        for option in completed.options {
            for name in option.names { described.append("\(name.written):\(option.help.abstract)") }
        }
        let options = described.map { quoted($0) }.joined(separator: " ")
        let commands = completed.subcommands.map { quoted("\($0.commandName):\($0.abstract)") }.joined(separator: " ")
        let more =
            commands.isEmpty ? zshOffer(completed.positional, program) : "local commands=(\(commands)); _describe command commands;"
        let offered = "-*) local options=(\(options)); _describe option options ;; *) \(more) ;;"
        return "        \(quoted(completed.name))) case \"$current\" in \(offered) esac ;;"
    }

    // MARK: fish

    private static func fish(_ commands: [CompletedCommand], _ program: String) -> String {
        var lines = [
            "# Completion of \(program) for fish.",
            "function __\(program)_place",
            "    set -l place \(program)",
            "    for word in (commandline -opc)[2..-1]",
            "        switch \"$place $word\"",
            "            case \(commands.dropFirst().map { quoted($0.name) }.joined(separator: " "))",
            "                set place \"$place $word\"",
            "        end",
            "    end",
            "    echo $place",
            "end",
            "function __\(program)_ask",
            "    \(program) \(question) (commandline -opc)[2..-1] -- (commandline -ct) 2>/dev/null",
            "end",
            "complete -c \(program) -f",
        ]
        for completed in commands {
            let there = "complete -c \(program) -n \(quoted("test (__\(program)_place) = \"\(completed.name)\""))"
            for option in completed.options {
                let names = option.names.map { name in
                    switch name {
                    case .short(let letter): "-s \(letter)"
                    case .long(let name): "-l \(quoted(name))"
                    }
                }.joined(separator: " ")
                let value = option.kind == .option ? " -r \(fishOffer(option.completion, program))" : ""
                lines.append("\(there) \(names) -d \(quoted(option.help.abstract))\(value)")
            }
            for command in completed.subcommands {
                lines.append("\(there) -a \(quoted(command.commandName)) -d \(quoted(command.abstract))")
            }
            let offer = fishOffer(completed.positional, program)
            if !offer.isEmpty { lines.append("\(there) \(offer)") }
        }
        return lines.joined(separator: "\n") + "\n"
    }

    private static func fishOffer(_ kind: CompletionKind, _ program: String) -> String {
        switch kind {
        case .none: ""
        case .file: "-F"
        case .directory: "-a '(__fish_complete_directories)'"
        case .list(let words): "-a \(quoted(words.joined(separator: " ")))"
        case .custom: "-a '(__\(program)_ask)'"
        }
    }
}
