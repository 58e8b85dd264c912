import Glibc
import Platform

/// A command and the way to it: what help, usage and messages are made of.
package struct CommandPath {
    /// From the program on.
    package let commands: [any ParsableCommand.Type]

    package init(_ commands: [any ParsableCommand.Type]) { self.commands = commands }

    package var command: any ParsableCommand.Type { commands[commands.count - 1] }

    package var configuration: CommandConfiguration { command.configuration }

    /// `martlet ctl clients`.
    package var name: String { commands.map { $0.configuration.commandName }.joined(separator: " ") }

    package func down(to subcommand: any ParsableCommand.Type) -> CommandPath { CommandPath(commands + [subcommand]) }

    /// The arguments, and the help and version that every command, or the program, has.
    package var definitions: [ArgumentDefinition] {
        var definitions = command.init().definitions()
        if configuration.version != nil {
            definitions.append(
                ArgumentDefinition(.flag, names: [.long("version")], valueName: "version", help: "Show the version."))
        }
        let names: [ArgumentDefinition.Name] = configuration.hasShortHelp ? [.short("h"), .long("help")] : [.long("help")]
        definitions.append(ArgumentDefinition(.flag, names: names, valueName: "help", help: "Show help information."))
        return definitions
    }

    /// Lines, each with the command's whole name.
    package var usage: [String] {
        if let usage = configuration.usage { return usage.split(separator: "\n").map(String.init) }
        let arguments = command.init().definitions()
        let options = arguments.filter { $0.kind != .positional }
        var parts = [name]
        if options.count > Self.usageOptionsShown { parts.append("[<options>]") }
        for argument in arguments where argument.kind == .positional || options.count <= Self.usageOptionsShown {
            let text = argument.kind == .positional ? argument.label : argument.usage(named: argument.preferredName)
            let repeated = argument.isRepeating ? "\(text) ..." : text
            parts.append(argument.isOptional || argument.kind == .flag ? "[\(repeated)]" : repeated)
        }
        if !configuration.subcommands.isEmpty { parts.append("<subcommand>") }
        return [parts.joined(separator: " ")]
    }

    /// A command with more options than these says `[<options>]`.
    private static let usageOptionsShown = 12

    /// The whole help, for a terminal of this many columns.
    package func help(columns: Int = CommandPath.terminalColumns) -> String {
        var blocks: [String] = []
        let overview = [configuration.abstract, configuration.discussion].filter { !$0.isEmpty }.joined(separator: "\n\n")
        if !overview.isEmpty { blocks.append(Self.wrapped("OVERVIEW: \(overview)", columns: columns, indent: 0) + "\n") }
        blocks.append("USAGE: " + usage.joined(separator: "\n       ") + "\n")
        let shown = definitions
        blocks.append(Self.section("ARGUMENTS", shown.filter { $0.kind == .positional }.map { ($0.label, $0.helpText) }, columns))
        blocks.append(
            Self.section(
                "OPTIONS", shown.filter { $0.kind != .positional && $0.group == nil }.map { ($0.label, $0.helpText) }, columns))
        var groups: [String] = []
        for case let group? in shown.map(\.group) where !groups.contains(group) { groups.append(group) }
        for group in groups {
            blocks.append(
                Self.section(group.uppercased(), shown.filter { $0.group == group }.map { ($0.label, $0.helpText) }, columns))
        }
        let subcommands = configuration.subcommands.map { $0.configuration }.filter { $0.shouldDisplay }
        if !subcommands.isEmpty {
            blocks.append(Self.section("SUBCOMMANDS", subcommands.map { ($0.commandName, $0.abstract) }, columns))
            let words = name.split(separator: " ", maxSplits: 1)
            let rest = words.count > 1 ? " \(words[1])" : ""
            blocks.append("  See '\(words[0]) help\(rest) <subcommand>' for detailed help.")
        }
        return blocks.filter { !$0.isEmpty }.joined(separator: "\n")
    }

    /// The text of an error: what was wrong, how the command is used, and where more is said.
    package func complaint(_ problem: any Error) -> String {
        let text = "Error: \(problem)"
        if let problem = problem as? ArgumentProblem, case .missing = problem { return "\(text)\n\n\(help())" }
        return """
            \(text)
            Usage: \(usage.joined(separator: "\n       "))
              See '\(name) --help' for more information.
            """
    }

    // MARK: Layout

    private static let labelColumns = 26

    private static func section(_ title: String, _ rows: [(label: String, text: String)], _ columns: Int) -> String {
        guard !rows.isEmpty else { return "" }
        let lines = rows.map { row in
            let label = "  \(row.label)"
            guard !row.text.isEmpty else { return "\(label)\n" }
            let text = wrapped(row.text, columns: columns, indent: labelColumns)
            // A long label stands on a line of its own.
            return (label.count < labelColumns ? label + text.dropFirst(label.count) : "\(label)\n\(text)") + "\n"
        }
        return "\(title):\n\(lines.joined())"
    }

    /// The text in lines of less than so many columns. A line that fits stays as it is.
    static func wrapped(_ text: String, columns: Int, indent: Int) -> String {
        let margin = String(repeating: " ", count: indent)
        let width = max(columns - 1 - indent, 20)
        return text.split(separator: "\n", omittingEmptySubsequences: false).map { line -> String in
            guard !line.isEmpty else { return "" }
            guard line.count > width else { return margin + line }
            var lines: [String] = []
            var current = String(line.prefix { $0 == " " })
            var isEmpty = true
            for word in line.split(separator: " ") {
                if !isEmpty, current.count + 1 + word.count > width {
                    lines.append(margin + current)
                    current = String(word)
                } else {
                    current += (isEmpty ? "" : " ") + word
                }
                isEmpty = false
            }
            return (lines + [margin + current]).joined(separator: "\n")
        }.joined(separator: "\n")
    }

    /// COLUMNS of the environment, else the terminal's, else 80.
    package static var terminalColumns: Int {
        if let text = getenv("COLUMNS"), let columns = Int(String(cString: text)), columns > 0 { return columns }
        return isatty(1) == 1 ? max(TerminalScreen.size(of: 1).columns, 40) : 80
    }
}
