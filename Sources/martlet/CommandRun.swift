import ArgumentParser
import Configuration
import Glibc
import MartletServer

/// One run of the command with its arguments: finds the subcommand that is meant, runs it, and ends the process with what comes of it.
enum CommandRun {
    static func run(_ root: any ParsableCommand.Type, _ arguments: [String]) -> Never {
        let chosen = subcommand(of: root, "martlet", arguments)
        // What follows a subcommand's name is its alone: the library would take it for options of the broker where the letters are the
        // same, such as -c and -p.
        let command = chosen ?? root
        let rest = chosen == nil ? arguments : Array(arguments.dropFirst())
        if let chosen { _ = subcommand(of: chosen, "martlet \(name(of: chosen))", rest) }
        if let client = chosen as? any ClientSubcommand.Type, rest.first?.hasPrefix("--experimental") != true {
            ClientCommandStart.run(client, rest)
            end(client, isRoot: false, with: CleanExit.helpRequest(client))
        }
        do {
            var parsed = try command.parseAsRoot(rest)
            try parsed.run()
            exit(EXIT_SUCCESS)
        } catch {
            end(command, isRoot: chosen == nil, with: error)
        }
    }

    /// With what the broker ends when its options or its configuration are wrong, as mosquitto does.
    private static let wrongStart: Int32 = 3

    /// The subcommand that the first argument names; nil when it is an option, or there are none. Ends the process for a name that is none.
    private static func subcommand(
        of command: any ParsableCommand.Type, _ whole: String, _ arguments: [String]
    ) -> (any ParsableCommand.Type)? {
        let subcommands = command.configuration.subcommands
        guard let word = arguments.first, !word.hasPrefix("-"), word != "help", !subcommands.isEmpty else { return nil }
        if let chosen = subcommands.first(where: { name(of: $0) == word }) { return chosen }
        let names = subcommands.map(name(of:)) + ["help"]
        var text = "Error: There is no command '\(whole) \(word)'."
        if let nearest = NearestName.nearest(to: word, among: names + Array(misnomers.keys)) {
            text += " Did you mean '\(whole) \(misnomers[nearest] ?? nearest)'?"
        } else if whole == "martlet", access(word, F_OK) == 0 {
            text += " To start the broker with a configuration file, type: martlet -c \(word)"
        } else {
            text += " There are: \(names.joined(separator: ", "))."
        }
        Console.complain("\(text)\nSee '\(whole) --help' for more information.")
        exit(whole == "martlet" ? wrongStart : EX_USAGE)
    }

    /// Says what the library has to say of an error, or of a wish for help, and ends.
    private static func end(_ command: any ParsableCommand.Type, isRoot: Bool, with error: any Error) -> Never {
        let code = command.exitCode(for: error)
        var text = command.fullMessage(for: error)
        // The library leaves out what stands before the subcommand.
        if !isRoot {
            text = text.split(separator: "\n", omittingEmptySubsequences: false).map(withWholeName).joined(separator: "\n")
        }
        if !text.isEmpty { if code.isSuccess { Console.say(text) } else { Console.complain(text) } }
        let isStart = isRoot || command is Serve.Type
        exit(isStart && code == .validationFailure ? wrongStart : code.rawValue)
    }

    private static func withWholeName(_ line: Substring) -> String {
        let beginning = ["  See '", "See '"].first { line.hasPrefix($0) && !line.hasPrefix("\($0)martlet ") }
        return beginning.map { "\($0)martlet \(line.dropFirst($0.count))" } ?? String(line)
    }

    private static func name(of command: any ParsableCommand.Type) -> String {
        command.configuration.commandName ?? String(describing: command).lowercased()
    }

    /// What some call a command, and what it is called.
    private static let misnomers = [
        "password": "passwd", "run": "serve", "start": "serve", "benchmark": "bench", "publish": "pub", "subscribe": "sub",
        "control": "ctl", "rr": "request",
    ]
}
